"""Mistral: [TOOL_CALLS] and a list of {"name", "arguments"} objects, or (since tokenizer v11) name[ARGS]{...}."""

from __future__ import annotations

import re
import secrets
import string

from tenfold.text.parsers.events import Sink
from tenfold.text.parsers.generic_json import read_calls
from tenfold.text.parsers.json_call import NAME, read_arguments
from tenfold.text.parsers.reader import Reader, Steps
from tenfold.text.parsers.tool_format import ToolFormat, Tools

_OPEN, _CALL_ID, _ARGS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_ID_CHARACTER = re.compile("[A-Za-z0-9]")


def _read(reader: Reader, sink: Sink, tools: Tools) -> Steps[None]:
    openers = reader.tags(_OPEN)
    while (yield from reader.opener(openers, sink.content)):
        reader.record(len(_OPEN))
        yield from reader.blanks()
        if (yield from reader.peek()) in ("[", "{"):
            yield from read_calls(reader, sink, None)
        elif not (yield from _read_named(reader, sink)):
            sink.content(reader.recorded())


def _read_named(reader: Reader, sink: Sink) -> Steps[bool]:
    name = yield from reader.word(NAME)
    call_id = None
    if (yield from reader.take(_CALL_ID)):
        call_id = yield from reader.word(_ID_CHARACTER)
    yield from reader.take(_ARGS)
    yield from reader.blanks()
    return (yield from read_arguments(reader, sink, name, call_id))


def _nine_characters() -> str:
    """An id as Mistral's templates want it back."""
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(9))


FORMAT = ToolFormat(
    names=("mistral",),
    read=_read,
    marks=(_OPEN, _CALL_ID, _ARGS),
    hints=(_OPEN,),
    new_id=_nine_characters,
)
