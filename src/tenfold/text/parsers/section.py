"""Calls in a section of their own, each between tags, as several families write them."""

from __future__ import annotations

from collections.abc import Callable

from tenfold.text.parsers.events import Sink
from tenfold.text.parsers.reader import Reader, Steps


def read_sections(
    reader: Reader,
    sink: Sink,
    *,
    begin: str,
    call: str,
    end: str,
    read_call: Callable[[Reader, Sink], Steps[bool]],
) -> Steps[None]:
    """Read a completion in which `begin` opens calls and `end` closes them; what is no whole call is content.

    Args:
        reader: the text.
        sink: told of content and calls.
        begin: opens a section.
        call: opens each call.
        end: closes the section; it may be missing.
        read_call: reads what follows `call`; false when that is no whole call.
    """
    openers = reader.tags(begin)
    while (yield from reader.opener(openers, sink.content)):
        reader.record(len(begin))
        yield from reader.blanks()
        whole = False
        while (yield from reader.take(call)):
            whole = yield from read_call(reader, sink)
            if not whole:
                break
            reader.record()
            yield from reader.blanks()
        if whole:
            yield from reader.take(end)
            reader.recorded()
        else:
            sink.content(reader.recorded())
