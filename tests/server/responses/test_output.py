"""Items and events agree, whatever a model says in which order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tenfold.server.responses.output import OutputItems

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.text(max_size=5)),
        st.tuples(st.just("reasoning"), st.text(max_size=5)),
        st.tuples(st.just("call"), st.lists(st.text(max_size=5), max_size=3)),
    ),
    max_size=12,
)


def play(steps: list[Any], status: str) -> tuple[list[dict], list[dict]]:
    out = OutputItems()
    events = []
    for kind, value in steps:
        if kind == "call":
            out.call("call_1", "look_up")
            for piece in value:
                out.arguments(piece)
        else:
            getattr(out, kind)(value)
        events += out.take()
    out.end(status)
    return out.items, events + out.take()


@given(STEPS, st.sampled_from(["completed", "incomplete"]))
def test_events_put_together_are_the_items(steps: list[Any], status: str) -> None:
    items, events = play(steps, status)
    built: list[dict] = []
    for event in events:
        what, at = event["type"].removeprefix("response."), event["output_index"]
        if what == "output_item.added":
            assert at == len(built)
            built.append({"text": "", "kind": event["item"]["type"], "open": True})
        elif what.endswith(".delta"):
            assert built[at]["open"]
            built[at]["text"] += event["delta"]
        elif what in ("output_text.done", "reasoning_text.done"):
            assert built[at]["text"] == event["text"]
        elif what == "function_call_arguments.done":
            assert built[at]["text"] == event["arguments"]
        elif what == "output_item.done":
            built[at]["open"] = False
            assert event["item"] == items[at]
    assert len(built) == len(items)
    for item, seen in zip(items, built, strict=True):
        assert not seen["open"] and seen["kind"] == item["type"]
        said = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        assert said == seen["text"]
    assert [item["status"] for item in items] == ["completed"] * (len(items) - 1) + [status] * bool(items)
    assert len({item["id"] for item in items}) == len(items)
