"""Tool calls written in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container

from tenfold.text.parsers.events import Sink
from tenfold.text.parsers.json_scanner import JsonScanner
from tenfold.text.parsers.reader import Reader, Steps

NAME = re.compile(r"[\w.:/-]")
"""A character of a tool's name."""

_ARGUMENTS = ("arguments", "parameters")


def read_value(reader: Reader, give: Callable[[str], None]) -> Steps[bool]:
    """Read a JSON value and give it away as it comes; False when it breaks or ends early."""
    scanner = JsonScanner()
    while True:
        part = yield from reader.part()
        if part is None:
            return False
        at, shown = scanner.scan(*part)
        reader.move_to(at)
        if shown:
            give(shown)
        if scanner.done or scanner.broken:
            return scanner.done


def read_string(reader: Reader) -> Steps[str | None]:
    """Read a JSON string and return what it says; None when it is none."""
    if (yield from reader.peek()) != '"':
        return None
    parts: list[str] = []
    if not (yield from read_value(reader, parts.append)):
        return None
    text: str = json.loads("".join(parts))
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which no reply can carry
        return None
    return text


def read_arguments(reader: Reader, sink: Sink, name: str, call_id: str | None = None) -> Steps[bool]:
    """Read the object of arguments of a call whose name is known, and tell of the call.

    False when it is not whole; what was read and not told of is in the reader's record.
    """
    if not name or (yield from reader.peek()) != "{":
        return False
    reader.recorded()
    sink.begin_call(name, call_id)
    if not (yield from read_value(reader, sink.arguments)):
        return False
    sink.end_call()
    return True


def read_call(reader: Reader, sink: Sink, names: Container[str] | None = None) -> Steps[bool]:
    """Read {"name": ..., "arguments": {...}}, and tell of the call.

    Args:
        reader: at the brace, and recording.
        sink: where the call goes, its arguments as they come.
        names: the tools there are. With them, an object with another name or other keys is no call: that is for JSON
            that no tag says is a call.

    Returns:
        False when it is no whole call. What was read and not told of is in the reader's record.
    """
    call = _Call(reader, sink, names)
    if not (yield from reader.take("{")):
        return False
    while True:
        yield from reader.blanks()
        if (yield from reader.take("}")):
            return call.end()
        if call.keys and not (yield from reader.take(",")):
            return False
        yield from reader.blanks()
        key = yield from read_string(reader)
        yield from reader.blanks()
        if key is None or not (yield from reader.take(":")):
            return False
        yield from reader.blanks()
        if not (yield from call.entry(key)):
            return False


class _Call:
    """A call whose entries are being read, in whatever order the model writes them."""

    def __init__(self, reader: Reader, sink: Sink, names: Container[str] | None) -> None:
        self.keys = 0
        self._reader = reader
        self._sink = sink
        self._names = names
        self._name: str | None = None
        self._begun = False
        self._early: list[str] | None = None  # arguments that came before the name

    def entry(self, key: str) -> Steps[bool]:
        """Read the value of a key."""
        self.keys += 1
        if key == "name" and self._name is None:
            return (yield from self._read_name())
        if key in _ARGUMENTS and not self._begun and self._early is None:
            return (yield from self._read_arguments())
        if self._names is not None and key not in ("type", "id"):
            return False
        return (yield from read_value(self._reader, lambda text: None))

    def end(self) -> bool:
        """The object is complete."""
        if self._name is None:
            return False
        if not self._begun:
            self._tell("{}")
        self._reader.recorded()
        return True

    def _read_name(self) -> Steps[bool]:
        name = yield from read_string(self._reader)
        if not name or (self._names is not None and name not in self._names):
            return False
        self._name = name
        if self._early is not None:
            self._tell("".join(self._early))
        return True

    def _read_arguments(self) -> Steps[bool]:
        opening = yield from self._reader.peek()
        if opening == "{" and self._name is not None:
            self._begin()
            if not (yield from read_value(self._reader, self._sink.arguments)):
                return False
            self._end_arguments()
            return True
        if opening == '"':
            # Some models write the object as a string.
            text = _object_in((yield from read_string(self._reader)) or "")
            if text is None:
                return False
            self._early = [text]
        elif opening in ("{", "n"):
            self._early = []
            if not (yield from read_value(self._reader, self._early.append)):
                return False
            if opening == "n":
                self._early = ["{}"]
        else:
            return False
        if self._name is not None:
            self._tell("".join(self._early))
        return True

    def _tell(self, arguments: str) -> None:
        self._begin()
        self._sink.arguments(arguments)
        self._end_arguments()

    def _begin(self) -> None:
        assert self._name is not None
        self._reader.recorded()
        self._sink.begin_call(self._name)
        self._begun = True

    def _end_arguments(self) -> None:
        self._sink.end_call()
        self._reader.record()


def _object_in(text: str) -> str | None:
    """Return the JSON object that a text is, None when it is none."""
    stripped = text.strip()
    scanner = JsonScanner()
    at, shown = scanner.scan(stripped, 0, len(stripped))
    return shown if stripped[:1] == "{" and scanner.done and at == len(stripped) else None
