"""DeepSeek: V3 and R1 write the type, the name and a fenced object; V3.1 the name and the object."""

from __future__ import annotations

from tenfold.text.parsers.events import Sink
from tenfold.text.parsers.generic_json import FENCE
from tenfold.text.parsers.json_call import NAME, read_arguments
from tenfold.text.parsers.reader import Reader, Steps
from tenfold.text.parsers.section import read_sections
from tenfold.text.parsers.tool_format import ToolFormat, Tools

_CALLS, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _SEPARATOR, _CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"


def _read(reader: Reader, sink: Sink, tools: Tools) -> Steps[None]:
    return read_sections(reader, sink, begin=_CALLS, call=_CALL, end=_CALLS_END, read_call=_read_call)


def _read_call(reader: Reader, sink: Sink) -> Steps[bool]:
    name = yield from reader.word(NAME)
    if not (yield from reader.take(_SEPARATOR)):
        return False
    fenced = False
    if name == "function" and (yield from reader.peek()) != "{":
        name = yield from reader.word(NAME)
        yield from reader.blanks()
        fenced = yield from reader.take(FENCE)
    yield from reader.blanks()
    if not (yield from read_arguments(reader, sink, name)):
        return False
    yield from reader.blanks()
    if fenced:
        yield from reader.take("```")
        yield from reader.blanks()
    yield from reader.take(_CALL_END)
    return True


FORMAT = ToolFormat(
    names=("deepseek_v3", "deepseek_v31"),
    read=_read,
    marks=(_CALLS, _CALLS_END, _CALL, _SEPARATOR, _CALL_END),
    hints=(_CALLS,),
)
