"""Where a download goes: a partial file, hashed and counted as it grows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

import msgspec

from tenfold.core.errors import TenfoldError


class PullError(TenfoldError):
    """A model could not be pulled; the message says what failed at each source."""


class PullProgress(msgspec.Struct, frozen=True):
    """How far a pull is.

    Args:
        model: its name.
        stage: what is being done, such as "downloading from the model hub (org/name)".
        done: bytes so far.
        total: bytes in all, or None when unknown.
    """

    model: str
    stage: str
    done: int
    total: int | None


Progress: TypeAlias = Callable[[PullProgress], None]


class SourceError(Exception):
    """One source failed; the next is tried. The message continues "from SOURCE: "."""


class Sink:
    """A partial file that becomes the real one only when size and sha256 are right.

    Args:
        path: the partial file; leaving the context without `commit` removes it.
        size: bytes expected; more are refused.
        sha256: expected digest.
        report: called with the bytes so far.
    """

    def __init__(self, path: Path, size: int, sha256: str, report: Callable[[int], None]) -> None:
        self._path = path
        self._size = size
        self._sha256 = sha256
        self._report = report
        self._digest = hashlib.sha256()
        self._done = 0

    def __enter__(self) -> Sink:
        self._file = self._path.open("wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._file.close()
        finally:
            self._path.unlink(missing_ok=True)

    def write(self, block: bytes) -> None:
        """Append a block."""
        self._done += len(block)
        if self._done > self._size:
            raise SourceError(f"the file is larger than the {self._size} bytes expected")
        self._file.write(block)
        self._digest.update(block)
        self._report(self._done)

    def commit(self, target: Path) -> None:
        """Check the file and give it its name.

        Raises:
            SourceError: size or sha256 is not as expected.
        """
        if self._done != self._size:
            raise SourceError(f"the file has {self._done} bytes, expected {self._size}")
        if self._digest.hexdigest() != self._sha256:
            raise SourceError(f"the file's sha256 is {self._digest.hexdigest()}, expected {self._sha256}")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._path.replace(target)
