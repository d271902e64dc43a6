"""Errors a user can meet. Each message is a sentence that names the thing, the limit and the mend."""

from __future__ import annotations


class TenfoldError(Exception):
    """Base of every error raised on purpose; its message is fit to show to a user."""


class CheckpointError(TenfoldError):
    """A model file is truncated, corrupted, hostile or unsupported.

    Args:
        file: path of the file.
        problem: a sentence without its subject's file and tensor ("the offset 12 is past the end").
        tensor: name of the tensor or metadata key concerned, if any.
        offset: byte offset in the file, if known.
    """

    def __init__(
        self, file: object, problem: str, *, tensor: str | None = None, offset: int | None = None
    ) -> None:
        where = f"{file}"
        if tensor is not None:
            where += f", tensor {tensor!r}"
        if offset is not None:
            where += f", at byte {offset}"
        super().__init__(f"{where}: {problem}")
        self.file = str(file)
        self.tensor = tensor
        self.offset = offset


class ModelNotFoundError(TenfoldError):
    """A model name is no catalog entry, file, folder or reachable hub id."""


class UnsupportedModelError(TenfoldError):
    """The architecture, or a feature of it, is not built."""


class InvalidRequestError(TenfoldError):
    """A request that cannot be served as written; HTTP 400 with the field in `param`.

    Args:
        message: the sentence for the user.
        param: the request field concerned, such as "temperature" or "messages[0].content".
        code: a short machine-readable code, such as "context_length_exceeded".
    """

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class OverloadedError(TenfoldError):
    """The waiting queue is full; HTTP 429 (or 503 while shutting down) with Retry-After.

    Args:
        message: the sentence for the user.
        retry_after: seconds after which trying again makes sense.
        shutting_down: true when the server takes no new work at all.
    """

    def __init__(self, message: str, *, retry_after: int = 1, shutting_down: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.shutting_down = shutting_down


class EngineError(TenfoldError):
    """The engine failed inside a step; requests that were running get this."""
