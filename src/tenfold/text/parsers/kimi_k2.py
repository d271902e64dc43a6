"""Kimi K2: each call has an id such as functions.get_weather:0, which its template wants back."""

from __future__ import annotations

import re

from tenfold.text.parsers.events import Sink
from tenfold.text.parsers.json_call import NAME, read_arguments
from tenfold.text.parsers.reader import Reader, Steps
from tenfold.text.parsers.section import read_sections
from tenfold.text.parsers.tool_format import ToolFormat, Tools

_SECTION, _SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
_CALL, _ARGUMENTS, _CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_ID = re.compile(r"(?:functions\.)?(?P<name>.+?)(?::\d+)?")


def _read(reader: Reader, sink: Sink, tools: Tools) -> Steps[None]:
    return read_sections(reader, sink, begin=_SECTION, call=_CALL, end=_SECTION_END, read_call=_read_call)


def _read_call(reader: Reader, sink: Sink) -> Steps[bool]:
    yield from reader.blanks()
    call_id = yield from reader.word(NAME)
    yield from reader.blanks()
    match = _ID.fullmatch(call_id)
    if match is None or not (yield from reader.take(_ARGUMENTS)):
        return False
    yield from reader.blanks()
    if not (yield from read_arguments(reader, sink, match["name"], call_id)):
        return False
    yield from reader.blanks()
    yield from reader.take(_CALL_END)
    return True


FORMAT = ToolFormat(
    names=("kimi_k2",),
    read=_read,
    marks=(_SECTION, _SECTION_END, _CALL, _ARGUMENTS, _CALL_END),
    hints=(_SECTION,),
)
