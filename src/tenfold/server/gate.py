"""The gate before every route: keys, shutdown, and the count of requests inside."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from tenfold.core.errors import OverloadedError
from tenfold.server.auth import Keys
from tenfold.server.errors import ApiError, api_error
from tenfold.server.page import OPEN_PATHS
from tenfold.server.service import Service

_NEEDS_NO_KEY = OPEN_PATHS | {"/health"}


class Gate:
    """ASGI middleware.

    Args:
        app: what lies behind the gate.
        service: its draining flag and count of requests are used.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._keys = Keys(service.settings.api_keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or count and pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        service = self._service
        try:
            self._admit(scope)
        except (ApiError, OverloadedError) as error:
            await service.refuse(api_error(error))(scope, receive, send)
            return
        service.in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            service.in_flight -= 1

    def _admit(self, scope: Scope) -> None:
        if scope["path"] not in _NEEDS_NO_KEY:
            header = next((value for name, value in scope["headers"] if name == b"authorization"), None)
            self._keys.check(header)
        if self._service.draining and scope["method"] == "POST":
            raise OverloadedError(
                "The server is shutting down and takes no new work; try another, or again later.",
                retry_after=5,
                shutting_down=True,
            )
