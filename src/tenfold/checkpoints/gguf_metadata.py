"""Reading a GGUF header: metadata and tensor descriptions, every count and length checked before use.

Layout (versions 2 and 3, little-endian): magic "GGUF", u32 version, u64 tensors, u64 keys; then for each key
a string, a u32 type and the value; then for each tensor a string, u32 dimensions, that many u64 lengths, a
u32 type and a u64 offset into the data, which starts at the next multiple of `general.alignment`.
Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import numpy as np

from tenfold.checkpoints.gguf_strings import read_strings
from tenfold.checkpoints.mapped_file import MappedFile
from tenfold.core.errors import CheckpointError

MAX_KEYS = 65_536
MAX_TENSORS = 100_000
MAX_STRINGS = 2_000_000
MAX_NAME_BYTES = 65_535
MAX_TEXT_BYTES = 16 << 20
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 1 << 20

_SCALARS = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_DTYPES = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "<u1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_BOOL, _STRING, _ARRAY = 7, 8, 9
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class TensorInfo(msgspec.Struct, frozen=True):
    """A tensor as the header describes it.

    Args:
        name: its name.
        dimensions: lengths in the file's order, the contiguous one first.
        type: ggml's type number, unchecked.
        offset: first byte, counted from the start of the data.
        position: where the description stands in the file.
    """

    name: str
    dimensions: tuple[int, ...]
    type: int
    offset: int
    position: int


class GgufHeader(msgspec.Struct, frozen=True):
    """A parsed header.

    Args:
        version: 2 or 3.
        metadata: values by key: int, float, bool, str, list[str], or a numpy array over the file for numbers.
        positions: where each key stands in the file.
        tensors: in the file's order.
        alignment: of the tensors' data, in bytes.
        data_start: first byte of the tensors' data.
    """

    version: int
    metadata: dict[str, Any]
    positions: dict[str, int]
    tensors: tuple[TensorInfo, ...]
    alignment: int
    data_start: int


class _Cursor:
    """A position in the file that never leaves it."""

    def __init__(self, file: MappedFile) -> None:
        self.file = file.path
        self.buffer = file.buffer
        self.end = file.size
        self.position = 0
        self.strings_left = MAX_STRINGS

    def skip(self, size: int, what: str) -> int:
        """Move over `size` bytes; returns where they start."""
        start = self.position
        if size > self.end - start:
            raise CheckpointError(
                self.file,
                f"{what} needs {size} bytes, but {self.end - start} are left; the file is truncated "
                "or corrupted",
                offset=start,
            )
        self.position = start + size
        return start

    def u32(self, what: str) -> int:
        value: int = _U32.unpack_from(self.buffer, self.skip(4, what))[0]
        return value

    def u64(self, what: str) -> int:
        value: int = _U64.unpack_from(self.buffer, self.skip(8, what))[0]
        return value

    def string(self, what: str, limit: int) -> str:
        start = self.position
        length = self.u64(what)
        if length > limit:
            raise CheckpointError(self.file, f"{what} has {length} bytes, the limit is {limit}", offset=start)
        first = self.skip(length, what)
        try:
            return self.buffer[first : first + length].decode()
        except UnicodeDecodeError:
            raise CheckpointError(self.file, f"{what} is not UTF-8", offset=first) from None

    def count(self, what: str, minimum: int, limit: int) -> int:
        """A u64 count of things of at least `minimum` bytes each."""
        start = self.position
        count = self.u64(what)
        left = (self.end - self.position) // minimum
        if count > left:
            raise CheckpointError(
                self.file,
                f"{what} is {count}, but at most {left} fit into the rest of the file",
                offset=start,
            )
        if count > limit:
            raise CheckpointError(self.file, f"{what} is {count}, the limit is {limit}", offset=start)
        return count

    def value(self, key: str) -> Any:
        """A metadata value of any type."""
        start = self.position
        what = f"the value of metadata key {key!r}"
        kind = self.u32(what)
        if kind == _STRING:
            return self.string(what, MAX_TEXT_BYTES)
        if kind == _ARRAY:
            return self.array(what)
        if kind == _BOOL:
            return self.boolean(what)
        scalar = _SCALARS.get(kind)
        if scalar is None:
            raise CheckpointError(self.file, f"{what} has the unknown type {kind}", offset=start)
        return scalar.unpack_from(self.buffer, self.skip(scalar.size, what))[0]

    def boolean(self, what: str) -> bool:
        start = self.skip(1, what)
        byte = self.buffer[start]
        if byte > 1:
            raise CheckpointError(self.file, f"{what} is {byte}, neither true nor false", offset=start)
        return bool(byte)

    def array(self, what: str) -> Any:
        start = self.position
        kind = self.u32(what)
        if kind == _ARRAY:
            raise CheckpointError(
                self.file, f"{what} is an array of arrays, which is not supported", offset=start
            )
        if kind == _STRING:
            count = self.count(f"the length of {what}", 8, self.strings_left)
            self.strings_left -= count
            strings, self.position = read_strings(self.file, self.buffer, self.position, count, what)
            return strings
        if kind not in _DTYPES:
            raise CheckpointError(self.file, f"{what} is an array of the unknown type {kind}", offset=start)
        dtype = np.dtype(_DTYPES[kind])
        count = self.count(f"the length of {what}", dtype.itemsize, self.end)
        first = self.skip(count * dtype.itemsize, what)
        return np.frombuffer(self.buffer, dtype, count, first)


def read_header(file: MappedFile) -> GgufHeader:
    """Parse the header of a GGUF file.

    Raises:
        CheckpointError: with the byte at which the header is wrong.
    """
    cursor = _Cursor(file)
    version = _version(cursor)
    # A tensor: name length, rank, one dimension, type, offset; a key: name length, type, one byte.
    tensor_count = cursor.count("the number of tensors", 8 + 4 + 8 + 4 + 8, MAX_TENSORS)
    key_count = cursor.count("the number of metadata keys", 8 + 4 + 1, MAX_KEYS)
    metadata: dict[str, Any] = {}
    positions: dict[str, int] = {}
    for index in range(key_count):
        start = cursor.position
        key = cursor.string(f"the name of metadata key {index}", MAX_NAME_BYTES)
        if key in metadata:
            raise CheckpointError(cursor.file, f"metadata key {key!r} appears twice", offset=start)
        positions[key] = start
        metadata[key] = cursor.value(key)
    alignment = _alignment(cursor.file, metadata, positions)
    tensors = _tensor_infos(cursor, tensor_count)
    data_start = -(-cursor.position // alignment) * alignment
    return GgufHeader(version, metadata, positions, tensors, alignment, data_start)


def _version(cursor: _Cursor) -> int:
    magic = cursor.buffer[:4]
    if magic == b"FUGG":
        raise CheckpointError(
            cursor.file, "this is a big-endian GGUF file; only little-endian is supported", offset=0
        )
    if magic != b"GGUF":
        raise CheckpointError(cursor.file, f"this is no GGUF file: it starts with {magic!r}", offset=0)
    cursor.skip(4, "the magic")
    version = cursor.u32("the version")
    if version in (2, 3):
        return version
    if int.from_bytes(version.to_bytes(4, "little"), "big") in (2, 3):
        raise CheckpointError(
            cursor.file, "this is a big-endian GGUF file; only little-endian is supported", offset=4
        )
    raise CheckpointError(
        cursor.file,
        f"GGUF version {version} is not supported, only 2 and 3; convert the file again",
        offset=4,
    )


def _alignment(file: object, metadata: dict[str, Any], positions: dict[str, int]) -> int:
    value = metadata.get("general.alignment", 32)
    if type(value) is not int or not 8 <= value <= MAX_ALIGNMENT or value & (value - 1):
        raise CheckpointError(
            file,
            f"metadata key 'general.alignment' must be a power of two from 8 to {MAX_ALIGNMENT}, "
            f"not {value!r:.40}",
            offset=positions["general.alignment"],
        )
    return value


def _tensor_infos(cursor: _Cursor, count: int) -> tuple[TensorInfo, ...]:
    infos = []
    names: set[str] = set()
    for index in range(count):
        start = cursor.position
        name = cursor.string(f"the name of tensor {index}", MAX_NAME_BYTES)
        if name in names:
            raise CheckpointError(cursor.file, "two tensors have this name", tensor=name, offset=start)
        names.add(name)
        rank = cursor.u32(f"the description of tensor {index}")
        if not 1 <= rank <= MAX_DIMENSIONS:
            raise CheckpointError(
                cursor.file, f"it has {rank} dimensions, not 1 to {MAX_DIMENSIONS}", tensor=name, offset=start
            )
        body = struct.Struct(f"<{rank}QIQ")
        first = cursor.skip(body.size, f"the description of tensor {name!r}")
        *dimensions, kind, offset = body.unpack_from(cursor.buffer, first)
        infos.append(TensorInfo(name, tuple(dimensions), kind, offset, start))
    return tuple(infos)
