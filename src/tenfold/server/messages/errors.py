"""Errors in Anthropic's shape: {"type": "error", "error": {"type", "message"}}."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from starlette.responses import Response

from tenfold.server import errors
from tenfold.server.errors import ApiError

PATH = "/v1/messages"
COUNT_PATH = "/v1/messages/count_tokens"
_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The inner object."""

    type: str
    message: str


class ErrorReply(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an error reply."""

    type: str = "error"
    error: ErrorInfo


def error_body(error: ApiError) -> bytes:
    """The reply's body for `error`."""
    kind = _KINDS.get(error.status) or ("api_error" if error.status >= 500 else "invalid_request_error")
    return msgspec.json.encode(ErrorReply(error=ErrorInfo(type=kind, message=str(error))))


def error_response(error: ApiError) -> Response:
    """The whole reply for `error`."""
    return Response(
        error_body(error), status_code=error.status, headers=error.headers, media_type="application/json"
    )


def shape_for(path: str) -> Callable[[ApiError], Response]:
    """What makes the reply for an error at `path`: each API has its own shape."""
    return error_response if path in (PATH, COUNT_PATH) else errors.error_response
