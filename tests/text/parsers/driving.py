"""Driving a parser, and putting its events together."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tenfold.text.parsers.completion_parser import CompletionParser
from tenfold.text.parsers.events import Arguments, CallBegun, Content, Event, Reasoning
from tenfold.text.parsers.registry import TOOL_FORMATS, reasoning_format, tool_format

SCHEMAS: dict[str, Mapping[str, Any]] = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    },
    "now": {},
}
NAMES = [form.names[0] for form in TOOL_FORMATS]


def parser(
    tools: str | None = None, reasoning: str | None = None, *, special: bool = False, **options: Any
) -> CompletionParser:
    """A parser by its formats' names; with `special`, all marks are special tokens."""
    form = None if tools is None else tool_format(tools, None)
    thought = None if reasoning is None else reasoning_format(reasoning, None)
    marks = (*(form.marks if form else ()), *(thought.marks if thought else ()))
    return CompletionParser(
        tools=form, reasoning=thought, schemas=SCHEMAS, special=marks if special else (), **options
    )


def drive(parser: CompletionParser, pieces: Iterable[str]) -> list[Event]:
    """All events of a completion that comes in these pieces."""
    events = list(itertools.chain.from_iterable(map(parser.push, pieces)))
    return events + parser.finish()


def together(events: Iterable[Event]) -> dict[str, Any]:
    """What a client ends up with; calls as (name, arguments)."""
    reasoning = content = ""
    calls: list[list[str]] = []
    for event in events:
        if isinstance(event, Reasoning):
            assert not content and not calls
            reasoning += event.text
        elif isinstance(event, Content):
            content += event.text
        elif isinstance(event, CallBegun):
            assert event.index == len(calls)
            assert event.id
            calls.append([event.name, ""])
        else:
            assert isinstance(event, Arguments)
            assert event.index == len(calls) - 1
            calls[-1][1] += event.text
    return {"reasoning": reasoning, "content": content, "calls": [tuple(call) for call in calls]}


def read(text: str, **options: Any) -> dict[str, Any]:
    """What becomes of a completion; the same in one piece and character by character."""
    whole = together(drive(parser(**options), [text]))
    assert together(drive(parser(**options), text)) == whole
    return whole


def calls_of(text: str, **options: Any) -> list[tuple[str, Any]]:
    """The calls of a completion without content, their arguments decoded."""
    found = read(text, **options)
    assert found["content"] == ""
    return [(name, json.loads(arguments)) for name, arguments in found["calls"]]
