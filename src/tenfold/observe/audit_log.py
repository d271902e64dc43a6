"""A file of JSON lines, written by a thread of its own: a slow or full disk harms nobody but the file."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tenfold.core.errors import TenfoldError
from tenfold.observe.losses import Losses

_log = logging.getLogger("tenfold.audit")
# A disk that stands still may cost so many lines of memory; what comes on top is lost, and counted.
_MAX_WAITING = 10_000
_CLOSE_TIMEOUT_S = 2.0


class AuditLog:
    """Appends events to a file.

    Args:
        path: made when absent, readable by its owner and group.

    Raises:
        TenfoldError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._open()
        self._torn = False
        self._losses = Losses(_log, f"The audit log {path} loses lines")
        self._waiting: queue.Queue[bytes | None] = queue.Queue(_MAX_WAITING)
        self._reopening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tenfold-audit", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Lines that could not be written."""
        return self._losses.count

    def write(self, event: Mapping[str, Any]) -> None:
        """Append an event, soon; never waits and never fails."""
        try:
            self._waiting.put_nowait(msgspec.json.encode(event) + b"\n")
        except queue.Full:
            self._losses.add(1, "its disk is too slow")

    def reopen(self) -> None:
        """Open the path anew before the next line, as its file may have been moved away."""
        self._reopening.set()

    def close(self) -> None:
        """Write what waits, for two seconds at most, and close the file."""
        try:
            self._waiting.put(None, timeout=_CLOSE_TIMEOUT_S)
        except queue.Full:
            return
        self._thread.join(_CLOSE_TIMEOUT_S)

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as problem:
            raise TenfoldError(f"The audit log {self._path} cannot be opened: {problem.strerror}.") from None

    def _run(self) -> None:
        while (line := self._waiting.get()) is not None:
            if self._reopening.is_set():
                self._reopening.clear()
                self._replace()
            self._append(line)
        os.close(self._file)

    def _replace(self) -> None:
        try:
            fresh = self._open()
        except TenfoldError as problem:
            _log.error("%s The old file is written on.", problem)
            return
        os.close(self._file)
        self._file = fresh
        self._torn = False

    def _append(self, line: bytes) -> None:
        # What a full disk cut short is ended first, so that it spoils no other line.
        data = b"\n" + line if self._torn else line
        try:
            written = os.write(self._file, data)
        except OSError as problem:
            self._losses.add(1, problem.strerror or "it cannot be written")
            return
        self._torn = written < len(data)
        if self._torn:
            self._losses.add(1, "its disk is full")
