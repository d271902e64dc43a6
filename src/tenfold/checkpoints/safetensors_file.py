"""Reading safetensors files: the header checked, tensors as views of the mapped file.

Layout: u64 header length, that many bytes of JSON {name: {dtype, shape, data_offsets: [begin, end]}}, then
the data, which the ranges cover without holes. Source: https://github.com/huggingface/safetensors
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec

from tenfold.checkpoints.mapped_file import MappedFile
from tenfold.core.errors import CheckpointError

MAX_HEADER_BYTES = 100_000_000
MAX_TENSORS = 100_000
MAX_COLONS = 8 * MAX_TENSORS
"""Colons in the header: 4 a tensor, as many again for metadata. Counting is fast, parsing millions is not."""
MAX_DIMENSIONS = 8

DTYPE_BYTES = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E5M2": 1,
    "F8_E4M3": 1,
    "F8_E8M0": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
    "C64": 8,
}
"""Bytes an element of each dtype takes."""


class Entry(msgspec.Struct, frozen=True):
    """A tensor as the header describes it; `data_offsets` count from the start of the data."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


class SafetensorsFile:
    """An opened safetensors file.

    Attributes:
        file: the mapped file.
        entries: descriptions by name.
        data_start: first byte of the data.

    Raises:
        CheckpointError: the header is truncated, malformed, or describes impossible or overlapping ranges.
    """

    def __init__(self, path: Path) -> None:
        self.file = MappedFile(path)
        self.entries: dict[str, Entry] = {}
        length = self._header_length()
        self.data_start = 8 + length
        self._parse(self.file.buffer[8 : 8 + length])
        self._check_ranges()

    def _header_length(self) -> int:
        path, size = self.file.path, self.file.size
        start = self.file.buffer[:8]
        if size < 8:
            raise CheckpointError(
                path, f"the file has {size} bytes, too few for a safetensors header", offset=0
            )
        length = int.from_bytes(start, "little")
        if length > min(MAX_HEADER_BYTES, size - 8):
            if start[:1] == b"\x80" or start[:4] == b"PK\x03\x04":
                raise CheckpointError(
                    path,
                    "this is a Python pickle, which can run code when read; only safetensors is supported",
                    offset=0,
                )
            raise CheckpointError(
                path,
                f"the header's length is {length}, but the file has {size} bytes and the limit is "
                f"{MAX_HEADER_BYTES}; "
                "the file is truncated, corrupted or no safetensors file",
                offset=0,
            )
        return length

    def _parse(self, header: bytes) -> None:
        path = self.file.path
        if header.count(b":") > MAX_COLONS:
            raise CheckpointError(
                path,
                f"the header has more than {MAX_COLONS} fields; the limit is {MAX_TENSORS} tensors",
                offset=8,
            )
        try:
            raw = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
            if len(raw) > MAX_TENSORS:
                raise CheckpointError(
                    path, f"it has {len(raw)} tensors, the limit is {MAX_TENSORS}", offset=8
                )
            raw.pop("__metadata__", None)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CheckpointError(path, f"the header is no valid JSON object ({error})", offset=8) from None
        decode = msgspec.json.Decoder(Entry).decode
        for name, description in raw.items():
            try:
                self.entries[name] = decode(description)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise CheckpointError(
                    path, f"its description is malformed ({error})", tensor=name, offset=8
                ) from None
            self._check_entry(name, self.entries[name])

    def _check_entry(self, name: str, entry: Entry) -> None:
        def error(problem: str) -> CheckpointError:
            return CheckpointError(self.file.path, problem, tensor=name, offset=8)

        if entry.dtype not in DTYPE_BYTES:
            raise error(f"its dtype {entry.dtype!r:.40} is unknown; known: {', '.join(DTYPE_BYTES)}")
        if len(entry.shape) > MAX_DIMENSIONS:
            raise error(f"it has {len(entry.shape)} dimensions, the limit is {MAX_DIMENSIONS}")
        size = DTYPE_BYTES[entry.dtype]
        for length in entry.shape:
            if not 0 <= length <= self.file.size:
                raise error(f"a dimension is {length}, more elements than the file has bytes, or negative")
            size *= length
        begin, end = entry.data_offsets
        data = self.file.size - self.data_start
        if not 0 <= begin <= end <= data:
            raise error(
                f"its bytes {begin} to {end} are not within the file's {data} bytes of data; it is truncated"
            )
        if end - begin != size:
            raise error(
                f"its shape {entry.shape} of {entry.dtype} takes {size} bytes, but its range has "
                f"{end - begin}"
            )

    def _check_ranges(self) -> None:
        """Ranges must follow each other without overlap or hole, up to the end of the file."""
        ordered = sorted(self.entries.items(), key=lambda item: item[1].data_offsets)
        if ordered and ordered[0][1].data_offsets[0] != 0:
            raise CheckpointError(
                self.file.path,
                "the data does not start with it",
                tensor=ordered[0][0],
                offset=self.data_start,
            )
        for (before, left), (after, right) in pairwise(ordered):
            if left.data_offsets[1] != right.data_offsets[0]:
                word = "overlap" if right.data_offsets[0] < left.data_offsets[1] else "leave a hole after"
                raise CheckpointError(
                    self.file.path,
                    f"its bytes {word} those of tensor {before!r}",
                    tensor=after,
                    offset=self.data_start + right.data_offsets[0],
                )
        end = self.data_start + (ordered[-1][1].data_offsets[1] if ordered else 0)
        if end != self.file.size:
            raise CheckpointError(
                self.file.path,
                f"{self.file.size - end} bytes after the last tensor belong to none",
                offset=end,
            )
