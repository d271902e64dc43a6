"""Where responses are kept: SQLite, shared by all threads and safe from kills."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from functools import cached_property
from pathlib import Path

import msgspec

from tenfold.core.errors import InvalidRequestError, TenfoldError
from tenfold.server.responses.request import Item

_logger = logging.getLogger("tenfold.server")

MAX_TURNS = 1000
"""Responses that a chain of previous_response_id may have."""
_DAYS = 30
_PRUNE_EVERY = 1000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    previous TEXT,
    status TEXT NOT NULL,
    owner TEXT NOT NULL,
    input BLOB NOT NULL,
    response BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS responses_created ON responses (created);
"""


class Kept(msgspec.Struct, frozen=True):
    """One kept response.

    Args:
        previous: the id it goes on from.
        input: its own input items.
        response: its body.
    """

    previous: str | None
    input: list[Item]
    response: Item


class ResponseStore:
    """Keeps responses for 30 days. All methods raise TenfoldError when the file cannot be used.

    Args:
        file: the database; None keeps them in memory.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._added = 0

    @cached_property
    def _db(self) -> sqlite3.Connection:
        """Opened with the first response, so that who asks for none has no file. Under the lock."""
        file = self._file
        try:
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            db = sqlite3.connect(str(file or ":memory:"), timeout=10, check_same_thread=False)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.executescript(_SCHEMA)
            _prune(db)
        except (OSError, sqlite3.Error) as problem:
            raise TenfoldError(f"The responses' database {file} cannot be used: {problem}.") from None
        return db

    def put(self, response: Item, previous: str | None, items: list[Item]) -> bool:
        """Keep a response, or its new state; False, and a line in the log, when that fails (a full disk)."""
        row = (response["id"], time.time(), previous, response["status"], _OWNER)
        blobs = (msgspec.json.encode(items), msgspec.json.encode(response))
        try:
            with self._lock, self._db:
                self._db.execute(
                    "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, *blobs)
                )
                self._added += 1
                if self._added % _PRUNE_EVERY == 0:
                    _prune(self._db)
        except sqlite3.Error as problem:
            _logger.error("response %s could not be kept: %s", response["id"], problem)
            return False
        return True

    def get(self, response_id: str) -> Kept | None:
        """A kept response, or None."""
        with self._lock:
            row = self._db.execute(
                "SELECT previous, input, response FROM responses WHERE id = ?", (response_id,)
            ).fetchone()
        if row is None:
            return None
        return Kept(row[0], msgspec.json.decode(row[1]), msgspec.json.decode(row[2]))

    def delete(self, response_id: str) -> bool:
        """Forget a response; False if there was none."""
        with self._lock, self._db:
            return self._db.execute("DELETE FROM responses WHERE id = ?", (response_id,)).rowcount > 0

    def history(self, response_id: str) -> list[Item]:
        """Input and output items of a response and all it goes on from, oldest first.

        Raises:
            InvalidRequestError: one of them is not kept, not done, or there are more than MAX_TURNS.
        """
        turns: list[list[Item]] = []
        wanted: str | None = response_id
        while wanted is not None:
            kept = self.get(wanted)
            if kept is None:
                raise InvalidRequestError(
                    f"Previous response with id '{wanted[:100]}' not found; it was not stored, or is gone.",
                    param="previous_response_id",
                    code="previous_response_not_found",
                )
            if kept.response["status"] not in ("completed", "incomplete"):
                raise InvalidRequestError(
                    f"The response {wanted[:100]} is {kept.response['status']}; only a finished one can be gone "
                    "on from.",
                    param="previous_response_id",
                )
            turns.append([*kept.input, *kept.response["output"]])
            if len(turns) > MAX_TURNS:
                raise InvalidRequestError(
                    f"The chain has more than {MAX_TURNS} responses; begin a new one.",
                    param="previous_response_id",
                )
            wanted = kept.previous
        return [item for turn in reversed(turns) for item in turn]

    def interrupted(self) -> list[Kept]:
        """Responses that were being computed in the background when their server ended; other servers live on."""
        with self._lock:
            rows = self._db.execute(
                "SELECT owner, previous, input, response FROM responses WHERE status IN ('queued', 'in_progress')"
            ).fetchall()
        return [
            Kept(previous, msgspec.json.decode(items), msgspec.json.decode(response))
            for owner, previous, items, response in rows
            if not _lives(owner)
        ]

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()


def _prune(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM responses WHERE created < ?", (time.time() - _DAYS * 86_400,))
    db.commit()


def _process(pid: int) -> str:
    """A process, told apart from later ones of the same number by when it began; that is empty if there is none."""
    try:
        began = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except OSError:
        began = ""
    return f"{pid}:{began}"


def _lives(owner: str) -> bool:
    pid, _, began = owner.partition(":")
    return bool(began) and owner == _process(int(pid))


_OWNER = _process(os.getpid())
