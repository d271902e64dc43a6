"""Llama 3: {"name": ..., "parameters": {...}}, after <|python_tag|> or bare, several parted by semicolons."""

from __future__ import annotations

from tenfold.text.parsers.events import Sink
from tenfold.text.parsers.generic_json import FENCE, read_calls, read_fenced, read_first
from tenfold.text.parsers.reader import Reader, Steps
from tenfold.text.parsers.tool_format import ToolFormat, Tools

_TAG = "<|python_tag|>"


def _read(reader: Reader, sink: Sink, tools: Tools) -> Steps[None]:
    openers = reader.tags(_TAG, FENCE)
    yield from read_first(reader, sink, tools)
    while (tag := (yield from reader.opener(openers, sink.content))) is not None:
        if tag == FENCE:
            yield from read_fenced(reader, sink, tools)
        else:
            # The tag marks Python code too, which is content.
            reader.record(len(_TAG))
            yield from read_calls(reader, sink, None)


FORMAT = ToolFormat(
    names=("llama3_json", "llama3", "llama4_json"),
    read=_read,
    marks=(_TAG,),
    hints=("<|start_header_id|>", "tools", '"parameters"'),
)
