"""Reading GGUF string arrays quickly.

A vocabulary with its merges holds some 300,000 strings, each behind a 64-bit length. A loop over them takes
about half a microsecond a string. Nearly all are shorter than 256 bytes, so their lengths read as one byte
and seven NULs; split at those NULs, a window of the file falls into strings in one C call, and the lengths
then prove (or not) that the split was right. Where it was not, a plain loop reads on.
"""

from __future__ import annotations

import mmap
import struct

import numpy as np

from tenfold.core.errors import CheckpointError

_SEPARATOR = b"\0" * 7
_WINDOW = 1 << 17
_SLOW_STRETCH = 256
_length = struct.Struct("<Q").unpack_from


def read_strings(
    file: object, buffer: mmap.mmap | bytes, position: int, count: int, what: str
) -> tuple[list[str], int]:
    """Read `count` strings that start at `position`.

    The caller has checked that 8 * count bytes are left, which bounds the list.

    Returns:
        The strings and the position after them.

    Raises:
        CheckpointError: a length runs past the end of the file, or bytes are no UTF-8.
    """
    strings: list[str] = []
    end = len(buffer)
    stretch = _SLOW_STRETCH
    while (left := count - len(strings)) > 0:
        window = buffer[position : min(end, position + _WINDOW)]
        found, used = _split(window, left)
        if not found:
            # A window costs as much as some hundred strings. Trying ever less often keeps hostile files,
            # which fail again and again, near the cost of the loop.
            found, used = _loop(file, buffer, position, min(left, stretch), what)
            stretch *= 2
        strings += found
        position += used
    return strings, position


def _split(window: bytes, limit: int) -> tuple[list[str], int]:
    """At most `limit` strings from the window's start and the bytes they took; none without a clean split."""
    pieces = window.split(_SEPARATOR)
    # pieces[0] is the first length byte; pieces[i] is string i - 1 and then the length byte of string i.
    if len(pieces) < 3 or len(pieces[0]) != 1:
        return [], 0
    sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
    if not sizes[:-1].all():
        return [], 0
    lengths = np.fromiter([piece[-1] for piece in pieces[:-1]], np.int64, len(pieces) - 1)
    good = sizes[1:-1] - 1 == lengths[:-1]
    taken = good.size if good.all() else int(np.argmin(good))
    taken = min(taken, limit)
    if taken == 0:
        return [], 0
    lengths = lengths[:taken]
    starts = np.cumsum(lengths + 8) - (lengths + 8)
    used = int(starts[-1] + lengths[-1] + 8)
    plain = np.frombuffer(window, np.uint8, used).copy()
    plain[starts] = 0
    if int(np.count_nonzero(plain)) != used - 8 * taken:  # some string holds a NUL
        return [], 0
    try:
        return plain.tobytes().decode().split("\0" * 8)[1:], used
    except UnicodeDecodeError:
        return [], 0  # the loop finds and names the bad string


def _loop(
    file: object, buffer: mmap.mmap | bytes, position: int, count: int, what: str
) -> tuple[list[str], int]:
    """Read strings one by one; returns them and the bytes they took."""
    strings: list[str] = []
    end = len(buffer)
    start = position
    for _ in range(count):
        if end - position < 8:
            raise CheckpointError(file, f"the file ends inside {what}; it is truncated", offset=position)
        (length,) = _length(buffer, position)
        if length > end - position - 8:
            raise CheckpointError(
                file, f"{what} has a string of {length} bytes, past the end of the file", offset=position
            )
        try:
            strings.append(buffer[position + 8 : position + 8 + length].decode())
        except UnicodeDecodeError:
            raise CheckpointError(file, f"{what} has a string that is not UTF-8", offset=position) from None
        position += 8 + length
    return strings, position - start
