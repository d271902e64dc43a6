"""Every parser over texts made of its own marks and JSON, cut anywhere."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.text.parsers.events import Arguments
from tenfold.text.parsers.json_scanner import JsonScanner
from tenfold.text.parsers.reasoning import FORMATS
from tenfold.text.parsers.registry import TOOL_FORMATS, tool_format
from tests.text.parsers.driving import NAMES, drive, parser, together
from tests.text.parsers.test_formats import TWO_CALLS

MARKS = sorted({mark for form in (*TOOL_FORMATS, *FORMATS) for mark in form.marks})
PIECES = st.sampled_from(
    [
        *MARKS,
        *("{", "}", "[", "]", ":", ",", '"', "\\", "\n", " ", "```json", "```", ";", "<tools>", "<", "|>"),
        *('{"name": "now", "arguments": ', '{"a": 1}', '"name"', '"arguments"', '"parameters"', '"id"'),
        *("now", "get_weather", "functions.now:0", "city", "null", "-1.5e3", "\\u00e9", "é", "😀", "\x00"),
        *(text for texts in TWO_CALLS.values() for text in texts),
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)
CUTS = st.lists(st.integers(0, 400), max_size=12)


def cut(text: str, at: list[int]) -> list[str]:
    places = sorted({0, len(text), *(place for place in at if place < len(text))})
    return [text[start:end] for start, end in itertools.pairwise(places)]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150, deadline=None)
@given(text=TEXTS, at=CUTS, special=st.booleans(), thinks=st.sampled_from([None, True, False]))
def test_a_stream_says_what_the_whole_says(name, text, at, special, thinks):
    options = {"tools": name, "reasoning": "qwen3", "special": special, "is_open": thinks}
    whole = together(drive(parser(**options), [text]))
    assert together(drive(parser(**options), cut(text, at))) == whole
    assert together(drive(parser(**options), text)) == whole


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_no_special_token_is_shown(name, text):
    form = tool_format(name, None)
    assert form is not None
    found = together(drive(parser(name, "qwen3", special=True), [text]))
    shown = [found["reasoning"], found["content"], *(part for call in found["calls"] for part in call)]
    for mark in (*form.marks, "<think>", "</think>"):
        assert not any(mark in part for part in shown)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=100, deadline=None)
@given(text=TEXTS, at=CUTS)
def test_arguments_are_always_the_beginning_of_json(name, text, at):
    one = parser(name)
    scanners: dict[int, JsonScanner] = {}
    events = drive(one, cut(text, at))
    for event in events:
        if isinstance(event, Arguments):
            scanner = scanners.setdefault(event.index, JsonScanner())
            end, shown = scanner.scan(event.text, 0, len(event.text))
            assert (end, shown) == (len(event.text), event.text)
            assert not scanner.broken
    whole = [arguments for _, arguments in together(events)["calls"]]
    assert sum(scanner.done for scanner in scanners.values()) >= (1 if one.has_calls else 0)
    for index, scanner in scanners.items():
        if scanner.done:
            assert isinstance(json.loads(whole[index]), dict)


@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_nothing_is_lost_but_marks_and_blanks(text):
    """Without a call, the content is the text."""
    for name in NAMES:
        found = together(drive(parser(name), [text]))
        if not found["calls"]:
            assert found["content"] == text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(value=VALUES, at=CUTS, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
def test_the_scanner_takes_all_json(value, at, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    scanner = JsonScanner()
    for piece in cut(text, at):
        assert scanner.scan(piece, 0, len(piece)) == (len(piece), piece)
    scanner.scan(" ", 0, 1)  # a number alone ends when something else comes
    assert scanner.done


JSON_PIECES = st.lists(
    st.sampled_from([*'{}[]:,"\\-+.eE01', "true", "null", '"a"', "\\u", " ", "9f", "NaN"]), max_size=10
).map("".join)


@settings(max_examples=500, deadline=None)
@given(text=JSON_PIECES)
def test_the_scanner_takes_nothing_else(text):
    scanner = JsonScanner()
    end, _ = scanner.scan(f"{text} ", 0, len(text) + 1)

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        assert not (scanner.done and not f"{text} "[end:].strip() and text.strip())
    else:
        assert scanner.done
