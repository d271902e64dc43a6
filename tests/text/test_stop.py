from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.text.stop import StopMatcher

small_text = st.text(alphabet="abc", max_size=30)
small_stops = st.lists(st.text(alphabet="abc", min_size=1, max_size=5), max_size=4)


def plain_search(text: str, stops: list[str]) -> tuple[int, str] | None:
    """The slow twin: the first end of a stop string, and the longest that ends there."""
    for end in range(1, len(text) + 1):
        here = [stop for stop in stops if text[:end].endswith(stop)]
        if here:
            return end, max(here, key=len)
    return None


@given(small_text, small_stops, st.lists(st.integers(0, 30), max_size=6), st.booleans())
def test_finds_what_a_plain_search_finds_over_any_split(
    text: str, stops: list[str], cuts: list[int], include: bool
) -> None:
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    matcher = StopMatcher(stops, include=include)
    out, matched = "", None
    for start, end in pairwise(edges):
        emitted, matched = matcher.push(text[start:end])
        out += emitted
    expected = plain_search(text, stops)
    if expected is None:
        assert matched is None
        assert out + matcher.flush() == text
    else:
        end, stop = expected
        assert matched == stop
        assert out == text[: end if include else end - len(stop)]
        assert matcher.push("more") == ("", stop)
        assert matcher.flush() == ""


@given(small_text, small_stops)
def test_holds_back_only_what_may_begin_a_stop(text: str, stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    out, matched = matcher.push(text)
    if matched is None:
        held = text[len(out) :]
        longest = max(
            (n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n])),
            default=0,
        )
        assert len(held) == longest


def test_match_across_token_borders() -> None:
    matcher = StopMatcher(["\nUser:"])
    assert matcher.push("Hi!\nUs") == ("Hi!", None)
    assert matcher.push("er") == ("", None)
    assert matcher.push(": you") == ("", "\nUser:")


def test_text_held_back_comes_out_when_it_was_no_stop() -> None:
    matcher = StopMatcher(["END"])
    assert matcher.push("the EN") == ("the ", None)
    assert matcher.push("D") == ("", "END")
    other = StopMatcher(["END"])
    assert other.push("the EN") == ("the ", None)
    assert other.push("try") == ("ENtry", None)


def test_empty_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="empty stop"):
        StopMatcher(["a", ""])


def test_a_long_stop_and_a_long_text_take_linear_time() -> None:
    matcher = StopMatcher(["a" * 20_000 + "b"])
    out, matched = matcher.push("a" * 100_000)
    assert matched is None
    assert len(out) == 80_000
