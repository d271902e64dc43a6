"""Calls as bare JSON: {"name": ..., "arguments": {...}}, several in a list or one after another, fenced or not.

Nothing marks them, so only an object at the beginning of the answer or in a ```json fence is a call, and only with the
name of a tool of the request and no keys of its own.
"""

from __future__ import annotations

from collections.abc import Container

from tenfold.text.parsers.events import Sink
from tenfold.text.parsers.json_call import read_call
from tenfold.text.parsers.reader import Reader, Steps
from tenfold.text.parsers.tool_format import ToolFormat, Tools

FENCE = "```json"


def read_calls(reader: Reader, sink: Sink, names: Container[str] | None) -> Steps[bool]:
    """Read one call object, or several in a list or parted by blanks, commas or semicolons.

    The reader must be recording. False when what is there is no call; it was then given as content.
    """
    yield from reader.blanks()
    listed = yield from reader.take("[")
    yield from reader.blanks()
    is_call = False
    while (yield from reader.peek()) == "{":
        is_call = yield from read_call(reader, sink, names)
        if not is_call:
            break
        reader.record()
        yield from reader.blanks()
        for separator in (",", ";"):
            if (yield from reader.take(separator)):
                yield from reader.blanks()
                break
    if is_call and listed:
        yield from reader.take("]")
    # After a call, what was read since is layout.
    unread = reader.recorded()
    if not is_call:
        sink.content(unread)
    return is_call


def read_first(reader: Reader, sink: Sink, names: Container[str]) -> Steps[None]:
    """Read calls that an answer begins with, if it does."""
    reader.record()
    yield from reader.blanks()
    if (yield from reader.peek()) in ("{", "["):
        yield from read_calls(reader, sink, names)
    else:
        reader.rewind()


def read_fenced(reader: Reader, sink: Sink, names: Container[str]) -> Steps[None]:
    """Read calls in a fence whose opening was just read; another fence is content."""
    reader.record(len(FENCE))
    if (yield from read_calls(reader, sink, names)):
        yield from reader.blanks()
        yield from reader.take("```")


def _read(reader: Reader, sink: Sink, tools: Tools) -> Steps[None]:
    openers = reader.tags(FENCE)
    yield from read_first(reader, sink, tools)
    while (yield from reader.opener(openers, sink.content)):
        yield from read_fenced(reader, sink, tools)


FORMAT = ToolFormat(names=("json", "generic"), read=_read, hints=("tools",))
