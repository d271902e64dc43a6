from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tenfold.server.messages.blocks import BlockStream, whole_blocks
from tenfold.text.parsers.events import Arguments, CallBegun, Content, Reasoning

TEXTS = st.text(min_size=1, max_size=4)


@st.composite
def found(draw):
    """What a parser may find: thoughts, then texts and calls, in pieces."""
    events = [Reasoning(text) for text in draw(st.lists(TEXTS, max_size=3))]
    for number in range(draw(st.integers(0, 3))):
        events += [Content(text) for text in draw(st.lists(TEXTS, max_size=3))]
        events.append(CallBegun(number, f"id{number}", "look"))
        text = json.dumps({"at": draw(TEXTS)})
        cut = draw(st.integers(1, len(text) - 1))
        events += [Arguments(number, text[:cut]), Arguments(number, text[cut:])]
    return events


@given(found())
def test_a_stream_makes_the_whole(events):
    stream = BlockStream()
    data = b"".join([*stream.take(events), *stream.close()]).decode()
    blocks, inputs = [], []
    for one in data.split("\n\n")[:-1]:
        name, _, text = one.partition("\ndata: ")
        event = json.loads(text)
        assert name == f"event: {event['type']}"
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append(event["content_block"])
            inputs.append("")
        elif event["type"] == "content_block_delta":
            assert event["index"] == len(blocks) - 1
            kind = event["delta"]["type"]
            if kind == "input_json_delta":
                inputs[-1] += event["delta"]["partial_json"]
            else:
                field = kind.removesuffix("_delta")
                blocks[-1][field] += event["delta"][field]
    for block, text in zip(blocks, inputs, strict=True):
        if block["type"] == "tool_use":
            block["input"] = json.loads(text)
    expected = whole_blocks(events)
    assert [{name: getattr(block, name) for name in block.__struct_fields__} for block in expected] == blocks
