"""Which formats there are, by the names that vLLM's users type, and which one a chat template asks for."""

from __future__ import annotations

from typing import TypeVar

from tenfold.core.errors import TenfoldError
from tenfold.text.parsers import deepseek_v3, generic_json, glm4, hermes, kimi_k2, llama3, mistral
from tenfold.text.parsers.reasoning import FORMATS as REASONING_FORMATS
from tenfold.text.parsers.reasoning import ReasoningFormat
from tenfold.text.parsers.tool_format import ToolFormat

Form = TypeVar("Form", ToolFormat, ReasoningFormat)

NONE = "none"
TOOL_FORMATS: tuple[ToolFormat, ...] = (
    hermes.FORMAT,
    llama3.FORMAT,
    mistral.FORMAT,
    glm4.FORMAT,
    kimi_k2.FORMAT,
    deepseek_v3.FORMAT,
    generic_json.FORMAT,  # the last, for it fits any template that has tools
)


def tool_format(name: str | None, template: str | None) -> ToolFormat | None:
    """Return the tool format of a name, or without one of a chat template; None for "none" or when none fits.

    Raises TenfoldError for an unknown name.
    """
    if name is not None:
        return _named("tool-call-parser", name, TOOL_FORMATS)
    return next((form for form in TOOL_FORMATS if template and form.fits(template)), None)


def reasoning_format(name: str | None, template: str | None) -> ReasoningFormat | None:
    """Return the reasoning format of a name, or without one of a chat template; None for "none" or when none fits.

    Raises TenfoldError for an unknown name.
    """
    if name is not None:
        return _named("reasoning-parser", name, REASONING_FORMATS)
    return next((form for form in REASONING_FORMATS if template and form.fits(template)), None)


def _named(flag: str, name: str, forms: tuple[Form, ...]) -> Form | None:
    if name == NONE:
        return None
    for form in forms:
        if name in form.names:
            return form
    known = ", ".join([*(name for form in forms for name in form.names), NONE])
    raise TenfoldError(f"--{flag} {name[:60]!r} is unknown; give one of {known}.")
