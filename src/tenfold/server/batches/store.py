"""The data folder: files as files, batches and their answers in SQLite.

Every answer is on the disk (write-ahead log, fsync) before it counts, so that a server killed at any moment goes on
where it was.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from tenfold.server.batches.objects import Answer, Batch, FileObject, Listing, PendingLine, Status
from tenfold.server.batches.storage_errors import FolderInUseError, StorageError
from tenfold.server.batches.whole_file import write_whole
from tenfold.server.errors import ApiError

T = TypeVar("T", FileObject, Batch)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, purpose TEXT NOT NULL, object BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS batches (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, status TEXT NOT NULL, model TEXT NOT NULL,
    input_file_id TEXT NOT NULL, object BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS lines (
    batch_id TEXT NOT NULL, number INTEGER NOT NULL, offset INTEGER NOT NULL, size INTEGER NOT NULL,
    custom_id TEXT NOT NULL, failed INTEGER, result BLOB, PRIMARY KEY (batch_id, number));
CREATE INDEX IF NOT EXISTS lines_pending ON lines (batch_id, number) WHERE result IS NULL;
"""
_DATABASE = "batches.sqlite3"
_COPY_BYTES = 1 << 20
ENDED = ("failed", "completed", "cancelled", "expired")


def is_begun(folder: Path) -> bool:
    """Whether a server has stored anything in `folder`."""
    return (folder / _DATABASE).exists()


class Store:
    """One data folder, held against other servers until `close`; its methods block, and are not thread-safe.

    Args:
        folder: made if need be.

    Raises StorageError or FolderInUseError, as every method may raise StorageError.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = folder / "files"
        try:
            self._files.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(folder, error.strerror) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._db = sqlite3.connect(
                folder / _DATABASE, isolation_level=None, check_same_thread=False, cached_statements=64
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_SCHEMA)
            self._remove_strays()
        except BlockingIOError:
            os.close(self._lock)
            raise FolderInUseError(folder) from None
        except (sqlite3.Error, OSError) as error:
            os.close(self._lock)
            raise StorageError(folder, error) from None

    def close(self) -> None:
        """Let go of the folder."""
        self._db.close()
        os.close(self._lock)

    # Files

    def path(self, file_id: str) -> Path:
        """Where a known file's bytes lie."""
        return self._files / file_id

    def add_file(self, source: BinaryIO, filename: str, purpose: str, *, limit: int) -> FileObject:
        """Keep what `source` has from its beginning, unless there are `limit` files already."""
        with self._guarded():
            (count,) = self._db.execute("SELECT count(*) FROM files WHERE purpose = 'batch'").fetchone()
        if count >= limit:
            raise ApiError(
                400, f"{count} files are stored, this server's limit; delete some.", code="too_many_files"
            )
        source.seek(0)
        file_id = _new_id("file")
        with self._guarded():
            write_whole(self.path(file_id), iter(lambda: source.read(_COPY_BYTES), b""))
            return self._insert_file(file_id, filename, purpose)

    def file(self, file_id: str) -> FileObject:
        """A file's object. Raises ApiError 404."""
        return self._object("files", file_id, FileObject, "file")

    def files(self, after: str | None, limit: int, newest_first: bool, purpose: str | None) -> Listing:
        """A page of files."""
        return self._page("files", FileObject, after, limit, newest_first=newest_first, purpose=purpose)

    def delete_file(self, file_id: str) -> None:
        """Remove a file. Raises ApiError 404, or 409 while a batch reads it."""
        self.file(file_id)
        with self._guarded():
            for (batch_id,) in self._db.execute(
                f"SELECT id FROM batches WHERE input_file_id = ? AND status NOT IN {ENDED}", (file_id,)
            ):
                raise ApiError(409, f"{batch_id} still reads {file_id}; cancel it or wait for its end.")
            self._db.execute("DELETE FROM files WHERE id = ?", (file_id,))
            self.path(file_id).unlink(missing_ok=True)

    # Batches

    def add_batch(self, batch: Batch, *, limit: int) -> Batch:
        """Keep a new batch, unless `limit` others are not done yet."""
        with self._transaction():
            (count,) = self._db.execute(
                f"SELECT count(*) FROM batches WHERE status NOT IN {ENDED}"
            ).fetchone()
            if count >= limit:
                message = f"{count} batches are not done yet, this server's limit; wait for one."
                raise ApiError(429, message, code="too_many_batches", headers={"Retry-After": "60"})
            self._db.execute(
                "INSERT INTO batches (id, status, model, input_file_id, object) VALUES (?, ?, ?, ?, ?)",
                (batch.id, batch.status, batch.model, batch.input_file_id, msgspec.json.encode(batch)),
            )
        return batch

    def batch(self, batch_id: str) -> Batch:
        """A batch. Raises ApiError 404."""
        return self._object("batches", batch_id, Batch, "batch")

    def batches(self, after: str | None, limit: int) -> Listing:
        """A page of batches, the newest first."""
        return self._page("batches", Batch, after, limit, newest_first=True)

    def oldest(self, statuses: Sequence[Status], models: Sequence[str]) -> Batch | None:
        """The first batch in one of these states, for one of these models."""
        states, names = (", ".join("?" * len(values)) for values in (statuses, models))
        with self._guarded():
            row = self._db.execute(
                f"SELECT object FROM batches WHERE status IN ({states}) AND model IN ({names}) ORDER BY seq LIMIT 1",
                (*statuses, *models),
            ).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=Batch)

    def fail(self, batch: Batch) -> None:
        """Keep a batch that did not pass validation, unless it was cancelled meanwhile."""
        with self._transaction():
            if self.batch(batch.id).status == "validating":
                self._save(batch)

    def begin(self, batch_id: str, lines: Sequence[PendingLine]) -> None:
        """Keep the requests of a batch that passed validation; it is in progress then."""
        with self._transaction():
            batch = self.batch(batch_id)
            if batch.status != "validating":
                return
            self._db.executemany(
                "INSERT INTO lines (batch_id, number, offset, size, custom_id) VALUES (?, ?, ?, ?, ?)",
                ((batch_id, line.number, line.offset, line.size, line.custom_id) for line in lines),
            )
            counts = msgspec.structs.replace(batch.request_counts, total=len(lines))
            self._save(batch.moved("in_progress", request_counts=counts))

    def pending(self, batch_id: str, after: int, limit: int) -> list[PendingLine]:
        """The next unanswered requests after line `after`."""
        with self._guarded():
            rows = self._db.execute(
                "SELECT number, offset, size, custom_id FROM lines "
                "WHERE batch_id = ? AND number > ? AND result IS NULL ORDER BY number LIMIT ?",
                (batch_id, after, limit),
            ).fetchall()
        return [PendingLine(*row) for row in rows]

    def read_line(self, file_id: str, line: PendingLine) -> bytes:
        """A line of an input file."""
        with self._guarded(), self.path(file_id).open("rb") as file:
            return os.pread(file.fileno(), line.size, line.offset)

    def record(self, batch_id: str, answers: Sequence[Answer]) -> None:
        """Keep answers, all or none; a second answer to a request is dropped."""
        with self._transaction():
            completed = failed = 0
            for answer in answers:
                done = self._db.execute(
                    "UPDATE lines SET failed = ?, result = ? WHERE batch_id = ? AND number = ? AND result IS NULL",
                    (answer.failed, answer.result, batch_id, answer.number),
                ).rowcount
                completed += done and not answer.failed
                failed += done and answer.failed
            batch = self.batch(batch_id)
            counts = msgspec.structs.replace(
                batch.request_counts,
                completed=batch.request_counts.completed + completed,
                failed=batch.request_counts.failed + failed,
            )
            self._save(msgspec.structs.replace(batch, request_counts=counts))

    def cancel(self, batch_id: str) -> Batch:
        """Ask a batch to end. Raises ApiError 404, or 409 when it has ended."""
        with self._transaction():
            batch = self.batch(batch_id)
            if batch.status in (*ENDED, "finalizing"):
                raise ApiError(409, f"{batch_id} is {batch.status}; there is nothing to cancel.")
            if batch.status != "cancelling":
                batch = batch.moved("cancelling")
                self._save(batch)
        return batch

    def finalize(self, batch_id: str) -> None:
        """Write a batch's output and error files and end it; the same again if a crash came between."""
        batch = self.batch(batch_id)
        if batch.status == "in_progress":
            with self._transaction():
                batch = batch.moved("finalizing")
                self._save(batch)
        made = {}
        with self._guarded():
            for failed, name in ((0, "output"), (1, "error")):
                made[name] = self._write_results(batch_id, failed)
        with self._transaction():
            for name, file_id in made.items():
                if file_id is not None:
                    self._insert_file(file_id, f"{batch_id}_{name}.jsonl", "batch_output")
            self._db.execute("DELETE FROM lines WHERE batch_id = ?", (batch_id,))
            self._save(
                batch.moved(
                    "cancelled" if batch.status == "cancelling" else "completed",
                    output_file_id=made["output"],
                    error_file_id=made["error"],
                )
            )

    # Inside

    def _write_results(self, batch_id: str, failed: int) -> str | None:
        rows = self._db.execute(
            "SELECT result FROM lines WHERE batch_id = ? AND failed = ? ORDER BY number", (batch_id, failed)
        )
        first = rows.fetchone()
        if first is None:
            return None
        file_id = _new_id("file")

        def parts() -> Iterator[bytes]:
            yield first[0] + b"\n"
            for row in rows:
                yield row[0] + b"\n"

        write_whole(self.path(file_id), parts())
        return file_id

    def _insert_file(self, file_id: str, filename: str, purpose: str) -> FileObject:
        file = FileObject(
            id=file_id,
            bytes=self.path(file_id).stat().st_size,
            created_at=int(time.time()),
            filename=filename,
            purpose=purpose,
        )
        self._db.execute(
            "INSERT INTO files (id, purpose, object) VALUES (?, ?, ?)",
            (file_id, purpose, msgspec.json.encode(file)),
        )
        return file

    def _save(self, batch: Batch) -> None:
        self._db.execute(
            "UPDATE batches SET status = ?, object = ? WHERE id = ?",
            (batch.status, msgspec.json.encode(batch), batch.id),
        )

    def _object(self, table: str, object_id: str, kind: type[T], noun: str) -> T:
        with self._guarded():
            row = self._db.execute(f"SELECT object FROM {table} WHERE id = ?", (object_id,)).fetchone()
        if row is None:
            raise ApiError(404, f"There is no {noun} {object_id[:100]!r} here.", code=f"{noun}_not_found")
        return msgspec.json.decode(row[0], type=kind)

    def _page(
        self,
        table: str,
        kind: type[T],
        after: str | None,
        limit: int,
        *,
        newest_first: bool,
        purpose: str | None = None,
    ) -> Listing:
        wanted = ["1"]
        values: list[str] = []
        if after is not None:
            wanted.append(f"seq {'<' if newest_first else '>'} (SELECT seq FROM {table} WHERE id = ?)")
            values.append(after)
        if purpose is not None:
            wanted.append("purpose = ?")
            values.append(purpose)
        order = "DESC" if newest_first else "ASC"
        with self._guarded():
            rows = self._db.execute(
                f"SELECT object FROM {table} WHERE {' AND '.join(wanted)} ORDER BY seq {order} LIMIT ?",
                (*values, limit + 1),
            ).fetchall()
        page = [msgspec.json.decode(row[0], type=kind) for row in rows[:limit]]
        return Listing(
            data=page,
            first_id=page[0].id if page else None,
            last_id=page[-1].id if page else None,
            has_more=len(rows) > limit,
        )

    def _remove_strays(self) -> None:
        """Remove files that a crash left without an entry."""
        known = {file_id for (file_id,) in self._db.execute("SELECT id FROM files")}
        for path in self._files.iterdir():
            if path.name not in known:
                path.unlink()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StorageError(self.folder, error) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._guarded():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


def _new_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"
