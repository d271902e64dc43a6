"""GGUF bytes written by hand, so that any field can be wrong."""

from __future__ import annotations

import struct
from typing import Any

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_FORMATS = {
    U8: "B",
    I8: "b",
    U16: "H",
    I16: "h",
    U32: "I",
    I32: "i",
    F32: "f",
    BOOL: "B",
    U64: "Q",
    I64: "q",
    F64: "d",
}


def string(text: str | bytes) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind: int, content: Any, element: int = U32) -> bytes:
    """A typed value; for arrays `element` is the elements' type."""
    return struct.pack("<I", kind) + _body(kind, content, element)


def _body(kind: int, content: Any, element: int = U32) -> bytes:
    if kind == STRING:
        return string(content)
    if kind == ARRAY:
        head = struct.pack("<IQ", element, len(content))
        return head + b"".join(_body(element, item) for item in content)
    return struct.pack("<" + _FORMATS[kind], content)


def tensor(name: str | bytes, dimensions: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    """A tensor's description."""
    body = string(name) + struct.pack("<I", len(dimensions))
    return body + struct.pack(f"<{len(dimensions)}QIQ", *dimensions, kind, offset)


def gguf(
    keys: list[tuple[str | bytes, bytes]] = (),
    tensors: list[bytes] = (),
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    tensor_count: int | None = None,
    key_count: int | None = None,
    data: int = 0,
    alignment: int = 32,
) -> bytes:
    """A file: header, padding, and `data` zero bytes."""
    head = magic + struct.pack(
        "<IQQ",
        version,
        len(tensors) if tensor_count is None else tensor_count,
        len(keys) if key_count is None else key_count,
    )
    head += b"".join(string(key) + body for key, body in keys) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + bytes(data)
