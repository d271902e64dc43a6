"""Errors in OpenAI's shape: {"error": {"message", "type", "param", "code"}}."""

from __future__ import annotations

import logging

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tenfold.core.errors import EngineError, InvalidRequestError, OverloadedError, TenfoldError

_logger = logging.getLogger("tenfold.server")


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The inner object of an error reply."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorReply(msgspec.Struct, frozen=True):
    """The body of an error reply."""

    error: ErrorInfo


class ApiError(TenfoldError):
    """An error that carries its own HTTP status.

    Args:
        status: HTTP status.
        message: the sentence for the user.
        param: the request field concerned.
        code: a short machine-readable code.
        headers: extra reply headers.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.headers = headers or {}


class ClientGoneError(Exception):
    """The client closed its connection; nobody reads the reply."""


def api_error(error: BaseException) -> ApiError:
    """Any error as an ApiError; unexpected ones are logged and say nothing of the inside."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, InvalidRequestError):
        return ApiError(400, str(error), param=error.param, code=error.code)
    if isinstance(error, OverloadedError):
        status = 503 if error.shutting_down else 429
        code = "shutting_down" if error.shutting_down else "overloaded"
        return ApiError(status, str(error), code=code, headers={"Retry-After": str(error.retry_after)})
    if isinstance(error, EngineError):
        _logger.error("engine error: %s", error)
        return ApiError(500, str(error), code="engine_error")
    if isinstance(error, TenfoldError):
        return ApiError(500, str(error), code="internal_error")
    _logger.error("unexpected error", exc_info=error)
    return ApiError(
        500, "The server met an unexpected error; its log has the details.", code="internal_error"
    )


def error_info(error: ApiError) -> ErrorInfo:
    """The inner object of the reply for `error`."""
    return ErrorInfo(message=str(error), type=_kind(error.status), param=error.param, code=error.code)


def error_response(error: ApiError) -> Response:
    """The whole reply for `error`."""
    body = msgspec.json.encode(ErrorReply(error_info(error)))
    return Response(body, status_code=error.status, headers=error.headers, media_type="application/json")


def route_error(error: HTTPException, path: str, method: str, known: list[str]) -> ApiError:
    """A router's own refusal (no such path, wrong method) as an ApiError; `known` are the API's paths."""
    headers = dict(error.headers or {})
    if error.status_code == 404:
        choices = ", ".join(known)
        return ApiError(404, f"There is nothing at {path}; the API's paths are {choices}.", headers=headers)
    if error.status_code == 405:
        allowed = headers.get("Allow", "another method")
        return ApiError(405, f"{path} does not take {method}; use {allowed}.", headers=headers)
    return ApiError(error.status_code, str(error.detail), headers=headers)


def _kind(status: int) -> str:
    if status == 401:
        return "authentication_error"
    if status == 429:
        return "rate_limit_error"
    if status == 503:
        return "service_unavailable_error"
    return "server_error" if status >= 500 else "invalid_request_error"
