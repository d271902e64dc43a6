"""Hermes and Qwen: <tool_call>{"name": ..., "arguments": {...}}</tool_call>, once for each call.

Small models forget the tags, or write those in which the prompt lists the tools; both are understood as long as the
name is a tool's.
"""

from __future__ import annotations

from tenfold.text.parsers.events import Sink
from tenfold.text.parsers.generic_json import FENCE, read_calls, read_fenced, read_first
from tenfold.text.parsers.json_call import read_call
from tenfold.text.parsers.reader import Reader, Steps
from tenfold.text.parsers.tool_format import ToolFormat, Tools

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_LIST, _LIST_END = "<tools>", "</tools>"


def _read(reader: Reader, sink: Sink, tools: Tools) -> Steps[None]:
    openers = reader.tags(OPEN, _LIST, FENCE)
    yield from read_first(reader, sink, tools)
    while (tag := (yield from reader.opener(openers, sink.content))) is not None:
        if tag == FENCE:
            yield from read_fenced(reader, sink, tools)
        elif tag == _LIST:
            reader.record(len(_LIST))
            if (yield from read_calls(reader, sink, tools)):
                yield from reader.blanks()
                yield from reader.take(_LIST_END)
        else:
            yield from _read_tagged(reader, sink)


def _read_tagged(reader: Reader, sink: Sink) -> Steps[None]:
    reader.record(len(OPEN))
    yield from reader.blanks()
    if not (yield from read_call(reader, sink)):
        sink.content(reader.recorded())
        return
    yield from reader.blanks()
    if (yield from reader.take("}")):  # one too many is a usual slip
        yield from reader.blanks()
    yield from reader.take(CLOSE)


FORMAT = ToolFormat(
    names=("hermes", "qwen", "qwen25"),
    read=_read,
    marks=(OPEN, CLOSE),
    hints=(OPEN,),
    other=("<arg_key>", "<function=", "<parameter="),
)
