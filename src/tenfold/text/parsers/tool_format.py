"""What a tool format is."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenfold.text.parsers.events import Sink
from tenfold.text.parsers.reader import Reader, Steps

Tools = Mapping[str, Mapping[str, Any]]
"""The request's tools: name to JSON schema of the arguments."""


def random_id() -> str:
    """Return an id for a call."""
    return f"call_{uuid.uuid4().hex[:24]}"


@dataclass(frozen=True)
class ToolFormat:
    """How a family of models writes tool calls.

    Args:
        names: what the format is called on the command line; the first is shown.
        read: reads a completion to its end and tells the sink of its content and calls. What is no whole call is
            content.
        marks: what in the text may be a special token, which would be left out of the text.
        hints: a chat template that has all of these, and none of the next, is of this format.
        other: see hints.
        new_id: makes an id for a call.
    """

    names: tuple[str, ...]
    read: Callable[[Reader, Sink, Tools], Steps[None]]
    marks: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    new_id: Callable[[], str] = random_id

    def fits(self, template: str) -> bool:
        """Whether a chat template asks for this format."""
        return all(hint in template for hint in self.hints) and not any(
            hint in template for hint in self.other
        )
