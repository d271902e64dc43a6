"""GLM 4.5: the name, then each argument between tags; whether a value is text or JSON, the tool's schema says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tenfold.text.parsers.events import Sink
from tenfold.text.parsers.json_call import NAME
from tenfold.text.parsers.json_scanner import JsonScanner
from tenfold.text.parsers.reader import Reader, Steps
from tenfold.text.parsers.tool_format import ToolFormat, Tools

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_KEY, _KEY_END, _VALUE, _VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"


def _read(reader: Reader, sink: Sink, tools: Tools) -> Steps[None]:
    openers = reader.tags(_OPEN)
    while (yield from reader.opener(openers, sink.content)):
        reader.record(len(_OPEN))
        if not (yield from _read_call(reader, sink, tools)):
            sink.content(reader.recorded())


def _read_call(reader: Reader, sink: Sink, tools: Tools) -> Steps[bool]:
    yield from reader.blanks()
    name = yield from reader.word(NAME)
    yield from reader.blanks()
    if not name:
        return False
    texts = _text_arguments(tools.get(name, {}))
    begun = False
    while not (yield from reader.take(_CLOSE)):
        if not (yield from reader.take(_KEY)):
            return False
        key = yield from _between(reader, _KEY_END)
        if key is None:
            return False
        yield from reader.blanks()
        if not (yield from reader.take(_VALUE)):
            return False
        label = f"{', ' if begun else '{'}{json.dumps(key.strip(), ensure_ascii=False)}: "
        if key.strip() in texts:
            reader.recorded()
            _open(sink, name, begun, label)
            if not (yield from _stream_text(reader, sink)):
                return False
            reader.record()
        else:
            value = yield from _between(reader, _VALUE_END)
            if value is None:
                return False
            reader.recorded()
            _open(sink, name, begun, label)
            sink.arguments(_as_json(value))
            reader.record()
        begun = True
        yield from reader.blanks()
    reader.recorded()
    if not begun:
        sink.begin_call(name)
    sink.arguments("}" if begun else "{}")
    sink.end_call()
    return True


def _open(sink: Sink, name: str, begun: bool, label: str) -> None:
    if not begun:
        sink.begin_call(name)
    sink.arguments(label)


def _between(reader: Reader, tag: str) -> Steps[str | None]:
    """Return the text before the tag, which is read; None when something else comes first."""
    parts: list[str] = []
    found = yield from reader.until(reader.tags(tag), parts.append)
    return "".join(parts) if found == tag else None


def _stream_text(reader: Reader, sink: Sink) -> Steps[bool]:
    sink.arguments('"')
    found = yield from reader.until(
        reader.tags(_VALUE_END),
        lambda text: sink.arguments(json.dumps(text, ensure_ascii=False)[1:-1]),
        keep_partial=False,
    )
    if found == _VALUE_END:
        sink.arguments('"')
    return found == _VALUE_END


def _text_arguments(schema: Mapping[str, Any]) -> frozenset[str]:
    """Names of the arguments that are text."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return frozenset()
    return frozenset(
        name for name, one in properties.items() if isinstance(one, Mapping) and one.get("type") == "string"
    )


def _as_json(value: str) -> str:
    """Return the value as it is if it is JSON, else as a string."""
    stripped = value.strip()
    scanner = JsonScanner()
    # A number alone has no end of its own; the blank is one.
    _, shown = scanner.scan(f"{stripped} ", 0, len(stripped) + 1)
    if scanner.done and shown.strip() == stripped:
        return stripped
    return json.dumps(value, ensure_ascii=False)


FORMAT = ToolFormat(
    names=("glm45", "glm4"),
    read=_read,
    marks=(_OPEN, _CLOSE, _KEY, _KEY_END, _VALUE, _VALUE_END),
    hints=(_KEY,),
)
