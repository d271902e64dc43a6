"""Mutated model files and what opening one may do; for test_fuzz.py and scripts/fuzz-checkpoints."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from tenfold.checkpoints.gguf import GgufCheckpoint
from tenfold.checkpoints.huggingface import HuggingFaceCheckpoint
from tenfold.core.errors import CheckpointError, UnsupportedModelError

_EDGES = [0, 1, 2, 7, 8, 31, 32, 127, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1]
_JSON_BITS = [
    b"-1",
    b"0",
    b"1e400",
    b"99999999999999999999",
    b"null",
    b"[]",
    b"{}",
    b'"',
    b"[[",
    b"\\u0000",
    b"\xff",
    b",",
]


def _flip_bits(content: bytearray, header: int, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 1, 1, 2, 8, 64])):
        content[rng.randrange(header)] ^= 1 << rng.randrange(8)


def _truncate(content: bytearray, header: int, rng: random.Random) -> None:
    del content[rng.randrange(rng.choice([header, len(content)]) + 1) :]


def _inflate(content: bytearray, header: int, rng: random.Random) -> None:
    """An edge value of 4 or 8 bytes somewhere, or what was there and a little more or less."""
    width, code = rng.choice([(4, "<I"), (8, "<Q")])
    place = rng.randrange(max(1, header - width))
    if len(content) < place + width:
        return
    old = struct.unpack_from(code, content, place)[0]
    value = rng.choice([rng.choice(_EDGES), old + rng.choice([-32, -1, 1, 2, 32]), old * 2])
    struct.pack_into(code, content, place, value % (1 << 8 * width))


def _splice(content: bytearray, header: int, rng: random.Random) -> None:
    """Copy, move or drop a stretch of the header."""
    start, length = rng.randrange(header), rng.choice([1, 4, 8, 33, 200])
    piece = content[start : start + length]
    if rng.random() < 0.5:
        del content[start : start + length]
    if rng.random() < 0.7:
        place = rng.randrange(header)
        content[place:place] = piece


def _overwrite(content: bytearray, header: int, rng: random.Random) -> None:
    place = rng.randrange(header)
    piece = rng.choice(
        [rng.randbytes(rng.choice([1, 4, 16])), b"\0" * 16, b"\xff" * 16, rng.choice(_JSON_BITS)]
    )
    content[place : place + len(piece)] = piece


_MUTATIONS: list[Callable[[bytearray, int, random.Random], None]] = [
    _flip_bits,
    _truncate,
    _inflate,
    _inflate,
    _splice,
    _overwrite,
]


def mutate(content: bytes, header: int, rng: random.Random) -> bytes:
    """A file with one to three changes to its first `header` bytes (truncation: anywhere)."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 3])):
        if changed:
            rng.choice(_MUTATIONS)(changed, min(header, len(changed)), rng)
    return bytes(changed)


def try_gguf(path: Path) -> str:
    """Open a file; "opened", or the name of the error that may come out. Any other error is a finding."""
    try:
        GgufCheckpoint(path)
    except (CheckpointError, UnsupportedModelError) as error:
        assert str(path) in str(error)
        return type(error).__name__
    return "opened"


def try_folder(folder: Path) -> str:
    """Like `try_gguf`, for a Hugging Face folder."""
    try:
        HuggingFaceCheckpoint(folder)
    except (CheckpointError, UnsupportedModelError) as error:
        assert str(folder) in str(error)
        return type(error).__name__
    return "opened"


def fuzz_file(
    path: Path, header: int, count: int, seed: int, attempt: Callable[[], str]
) -> Iterator[tuple[int, str]]:
    """Mutate a file in place `count` times; yields each case's number and what happened.

    On an unexpected error the mutated file stays, for a look at it; otherwise the original is put back.
    """
    original = path.read_bytes()
    for case in range(count):
        content = mutate(original, header, random.Random(f"{seed}/{case}"))
        path.unlink()  # a new inode: the old one may still be mapped
        path.write_bytes(content)
        yield case, attempt()
    path.unlink()
    path.write_bytes(original)
