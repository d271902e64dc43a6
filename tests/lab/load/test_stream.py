from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tenfold.lab.load.stream import EventSplitter, StreamReader

STREAM = (
    b'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}\n\n'
    b": a comment\n\n"
    b'data: {"choices": [{"index": 0, "delta": {"content": "Gr\xc3\xbc\xc3\x9fe"}}]}\r\n\r\n'
    b'data: {"choices": [{"index": 0, "text": "!", "finish_reason": "length"}]}\n\n'
    b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3,'
    b' "prompt_tokens_details": {"cached_tokens": 4}}}\n\n'
    b"data: [DONE]\n\n"
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_pieces_may_end_anywhere(cuts: list[int]) -> None:
    reader = StreamReader()
    borders = [0, *sorted(cuts), len(STREAM)]
    for number, (start, end) in enumerate(itertools.pairwise(borders)):
        reader.feed(STREAM[start:end], float(number))
    assert len(reader.arrivals) == 2, "an empty delta is no text"
    assert reader.complete and reader.error is None and reader.finish_reason == "length"
    assert reader.usage is not None and reader.usage.completion_tokens == 3
    assert reader.usage.prompt_tokens_details is not None
    assert reader.usage.prompt_tokens_details.cached_tokens == 4


def compact(delta: str, rest: str = "") -> bytes:
    return (
        f'data: {{"id":"x","choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}]{rest}}}\n\n'
    ).encode()


def test_events_that_are_not_decoded_count_the_same() -> None:
    pieces = [
        (compact('{"role":"assistant","content":""}'), 0),
        (compact('{"content":"a"}'), 1),
        (compact('{"content":"\\"finish_reason\\":\\"stop\\""}'), 1),
        (compact('{"content":"\\"error\\":\\n\\"usage\\":{"}'), 1),
        (compact('{"content":"b"}') + compact('{"content":"c"}'), 2),
        (compact("{}"), 0),
        (compact('{"content":"d"}', ',"usage":{"prompt_tokens":1,"completion_tokens":9}'), 1),
        (b'data: {"choices":[{"index":0,"text":"e","logprobs":null,"finish_reason":null}]}\n\n', 1),
        (b'data: {"choices":[{"index":0,"text":"","logprobs":null,"finish_reason":null}]}\n\n', 0),
        (b'data: {"choices":[{"index":0,"delta":{"content":"f"},"finish_reason":"length"}]}\n\n', 1),
        (b"data: [DONE]\n\n", 0),
    ]
    reader = StreamReader()
    for number, (piece, texts) in enumerate(pieces):
        before = len(reader.arrivals)
        reader.feed(piece, float(number))
        assert len(reader.arrivals) - before == texts, piece
    assert reader.error is None and reader.complete and reader.finish_reason == "length"
    assert reader.usage is not None and reader.usage.completion_tokens == 9


def test_data_over_several_lines_is_one_event() -> None:
    assert EventSplitter().feed(b'data: {"a":\ndata: 1}\n\n') == [b'{"a":\n1}']


def test_text_of_a_reasoning_model_counts() -> None:
    reader = StreamReader()
    reader.feed(b'data: {"choices": [{"delta": {"reasoning_content": "hm"}}]}\n\n', 1.0)
    assert reader.arrivals == [1.0]


def test_errors_in_the_stream() -> None:
    reader = StreamReader()
    reader.feed(b'data: {"error": {"message": "broken"}}\n\n', 1.0)
    assert reader.error == "an error event"
    reader = StreamReader()
    reader.feed(b'data: {"choices": [{"text": "\xff"}]}\n\n', 1.0)
    assert reader.error == "an event is not a completion chunk"
    reader = StreamReader()
    reader.feed(b"data: hello\n\n", 1.0)
    assert reader.error == "an event is not a completion chunk"
    assert not reader.complete
