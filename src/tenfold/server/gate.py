"""The gate before every route: keys and their limits, shutdown, and the count of requests inside."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from tenfold.core.errors import OverloadedError
from tenfold.server.errors import ApiError, api_error
from tenfold.server.key_limits import KeyLimits
from tenfold.server.messages.errors import shape_for
from tenfold.server.page import OPEN_PATHS
from tenfold.server.record import RequestRecord, record_of
from tenfold.server.service import Service

_NEEDS_NO_KEY = OPEN_PATHS | {"/health"}
# Statuses that are the server's doing: such a request does not count against its key.
_NOT_SERVED = frozenset({429, 500, 503})


class Gate:
    """ASGI middleware.

    Args:
        app: what lies behind the gate.
        service: its keys, draining flag and count of requests are used.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or count and pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        service = self._service
        record = record_of(scope)
        try:
            self._admit(scope, record)
        except (ApiError, OverloadedError) as error:
            await service.refuse(api_error(error), shape_for(scope["path"]))(scope, receive, send)
            return
        service.in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            service.in_flight -= 1
            if record.limits is not None and _counts(scope):
                self._settle(record, record.limits)

    def _admit(self, scope: Scope, record: RequestRecord) -> None:
        if scope["path"] not in _NEEDS_NO_KEY:
            headers = dict(reversed(scope["headers"]))  # of several with one name, the first counts
            header, key = headers.get(b"authorization"), headers.get(b"x-api-key")
            if header is None and key is not None:  # as Anthropic's clients send it
                header = b"Bearer " + key
            record.limits = self._service.keys.check(header, scope["path"])
            record.key = record.limits.entry.name if record.limits is not None else None
        if self._service.draining and scope["method"] == "POST":
            raise OverloadedError(
                "The server is shutting down and takes no new work; try another, or again later.",
                retry_after=5,
                shutting_down=True,
            )
        if record.limits is not None and _counts(scope):
            record.limits.begin()

    def _settle(self, record: RequestRecord, limits: KeyLimits) -> None:
        refused = record.status in _NOT_SERVED and not record.used_tokens
        used = record.settle(refused=refused)
        limits.end(refund=refused)
        self._service.metrics.key_requests[limits.entry.name] += 1
        self._service.metrics.key_tokens[limits.entry.name] += used


def _counts(scope: Scope) -> bool:
    """Whether a request counts against its key's limits: those that only look do not."""
    return bool(scope["method"] == "POST") and not scope["path"].startswith("/admin/")
