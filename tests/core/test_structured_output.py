"""Structured output that nobody could compile is refused before anybody tries."""

from __future__ import annotations

from typing import Any

import pytest

from tenfold.core.errors import InvalidRequestError
from tenfold.core.sampling_params import SamplingParams
from tenfold.core.structured_output import MAX_STRUCTURED_CHARS, StructuredOutput


@pytest.mark.parametrize(
    ("structured", "problem"),
    [
        (StructuredOutput("regex"), "the regex is empty"),
        (StructuredOutput("json_schema", "x" * (MAX_STRUCTURED_CHARS + 1)), "262145 characters"),
        (StructuredOutput("yaml", "x"), "structured is wrong"),  # type: ignore[arg-type]
        (StructuredOutput("regex", 5), "structured is wrong"),  # type: ignore[arg-type]
        ({"kind": "regex"}, "structured is wrong"),
        ("regex", "structured is wrong"),
    ],
    ids=str,
)
def test_refused(structured: Any, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem) as refusal:
        SamplingParams(structured=structured).check()
    assert refusal.value.param == "structured"


def test_taken() -> None:
    for structured in (None, StructuredOutput("json_object"), StructuredOutput("regex", "a+")):
        SamplingParams(structured=structured).check()
    assert (
        len({StructuredOutput("regex", "a"), StructuredOutput("regex", "a"), StructuredOutput("regex", "b")})
        == 2
    )
