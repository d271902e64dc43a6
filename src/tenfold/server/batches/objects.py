"""Files and batches in OpenAI's shape; they are stored as they are shown."""

from __future__ import annotations

import time
from typing import Any, Literal

import msgspec

Status = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "cancelling", "cancelled", "expired"
]


class FileObject(msgspec.Struct, frozen=True, kw_only=True):
    """A stored file; its bytes lie in the data folder under its id."""

    id: str
    object: str = "file"
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: str = "processed"


class FileDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """Body of the reply to a file's deletion."""

    id: str
    object: str = "file"
    deleted: bool = True


class BatchProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a batch failed or waits; `line` counts from 1."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class BatchProblems(msgspec.Struct, frozen=True, kw_only=True):
    """A list of them."""

    object: str = "list"
    data: list[BatchProblem]


class RequestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of a batch."""

    total: int = 0
    completed: int = 0
    failed: int = 0


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch and how far it is.

    Args:
        model: the name this server answered to when it took the batch; only a server of that name goes on with it.
    """

    id: str
    object: str = "batch"
    endpoint: str
    model: str
    errors: BatchProblems | None = None
    input_file_id: str
    completion_window: str
    status: Status = "validating"
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: int
    in_progress_at: int | None = None
    expires_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: RequestCounts = RequestCounts()
    metadata: dict[str, str] | None = None

    def moved(self, status: Status, **changes: Any) -> Batch:
        """The batch in another state, entered now."""
        return msgspec.structs.replace(self, status=status, **{f"{status}_at": int(time.time())}, **changes)


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A page of files or batches."""

    object: str = "list"
    data: list[Any]
    first_id: str | None
    last_id: str | None
    has_more: bool


class BatchRequest(msgspec.Struct, kw_only=True):
    """Body of POST /v1/batches."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None


class BatchLine(msgspec.Struct, kw_only=True):
    """One line of a batch's input."""

    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


class LineResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What HTTP would have answered."""

    status_code: int
    request_id: str
    body: msgspec.Raw


class LineError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was not run."""

    code: str
    message: str


class LineResult(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a batch's output or error file."""

    id: str
    custom_id: str
    response: LineResponse | None
    error: LineError | None


class PendingLine(msgspec.Struct, frozen=True):
    """A request of a batch that has no answer yet.

    Args:
        number: its line, from 1.
        offset: where the line begins in the input file, in bytes.
        size: of the line, in bytes.
        custom_id: the client's name for it.
    """

    number: int
    offset: int
    size: int
    custom_id: str


class Answer(msgspec.Struct, frozen=True):
    """What became of one request.

    Args:
        number: its line.
        failed: whether it belongs into the error file.
        result: a LineResult as JSON.
    """

    number: int
    failed: bool
    result: bytes
