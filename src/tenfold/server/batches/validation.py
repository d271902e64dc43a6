"""A batch's input, checked line by line before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from tenfold.core.errors import InvalidRequestError
from tenfold.server.batches.objects import BatchLine, BatchProblem, PendingLine
from tenfold.server.decoding import decode
from tenfold.server.errors import ApiError

MAX_REQUESTS = 50_000
_MAX_ID_CHARS = 512
# So many wrong lines are told; who has more will look for what they have in common.
_MAX_PROBLEMS = 100

_decoder = msgspec.json.Decoder(BatchLine)


class _WrongLineError(Exception):
    """What is wrong with a line."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.problem = BatchProblem(code=code, message=message, param=param)


def read_lines(
    path: Path, endpoint: str, check_body: Callable[[bytes], None], *, max_line_bytes: int
) -> tuple[list[PendingLine], list[BatchProblem]]:
    """The requests of an input file, and what is wrong with it.

    Args:
        path: the file, one JSON object a line; empty lines are skipped.
        endpoint: path that every line must name.
        check_body: raises InvalidRequestError or ApiError for a body that can never run.
        max_line_bytes: a longer line is an error, and ends the search for others.

    Raises OSError when the file cannot be read.
    """
    lines: list[PendingLine] = []
    problems: list[BatchProblem] = []
    seen: dict[str, int] = {}
    number = offset = 0
    with path.open("rb") as file:
        while line := file.readline(max_line_bytes + 1):
            number += 1
            try:
                if len(line) > max_line_bytes:
                    raise _WrongLineError(
                        "line_too_long", f"It has more than {max_line_bytes} bytes, the limit."
                    )
                if line.strip():
                    lines.append(
                        PendingLine(
                            number, offset, len(line), _check(line, number, endpoint, check_body, seen)
                        )
                    )
            except _WrongLineError as error:
                problems.append(msgspec.structs.replace(error.problem, line=number))
                if len(problems) == _MAX_PROBLEMS or len(line) > max_line_bytes:
                    break
            offset += len(line)
            if len(lines) > MAX_REQUESTS:
                message = (
                    f"The input has more than {MAX_REQUESTS} requests, the limit; make several batches of it."
                )
                return [], [BatchProblem(code="too_many_requests", message=message)]
    if not lines and not problems:
        problems.append(
            BatchProblem(code="empty_file", message="The input has no requests; give one a line.")
        )
    return lines, problems


def _check(
    text: bytes, number: int, endpoint: str, check_body: Callable[[bytes], None], seen: dict[str, int]
) -> str:
    """The custom_id of a good line."""
    try:
        line = decode(_decoder, text)
    except InvalidRequestError as error:
        code = "invalid_json_line" if error.code else "invalid_request"
        raise _WrongLineError(code, str(error), error.param) from None
    if not 1 <= len(line.custom_id) <= _MAX_ID_CHARS:
        message = f"custom_id has {len(line.custom_id)} characters; give 1 to {_MAX_ID_CHARS}."
        raise _WrongLineError("invalid_custom_id", message, "custom_id")
    first = seen.setdefault(line.custom_id, number)
    if first != number:
        message = f"custom_id {line.custom_id!r} is that of line {first} too; give each request its own."
        raise _WrongLineError("duplicate_custom_id", message, "custom_id")
    if line.method != "POST":
        raise _WrongLineError("invalid_method", f"method is {line.method[:40]!r}; it must be POST.", "method")
    if line.url != endpoint:
        message = f"url is {line.url[:100]!r}; the batch's endpoint is {endpoint}."
        raise _WrongLineError("invalid_url", message, "url")
    try:
        check_body(bytes(line.body))
    except (InvalidRequestError, ApiError) as error:
        param = f"body.{error.param}" if error.param else "body"
        raise _WrongLineError(error.code or "invalid_request", f"body: {error}", param) from None
    return line.custom_id


def body_of(text: bytes) -> bytes:
    """The body in a line that passed."""
    return bytes(_decoder.decode(text).body)
