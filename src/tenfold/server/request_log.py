"""The outermost layer: a request's id, its headers about limits, its one line in the logs and its spans."""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenfold.observe.logs import access_log, request_id, timestamp
from tenfold.server.record import RequestRecord, begin_record
from tenfold.server.service import Service
from tenfold.server.spans import spans

# What a browser's page may read of a reply from another origin.
REPLY_HEADERS = (
    "x-request-id",
    "retry-after",
    *(
        f"x-ratelimit-{what}-{of}"
        for what in ("limit", "remaining", "reset")
        for of in ("requests", "tokens")
    ),
)


class RequestLog:
    """ASGI middleware.

    Args:
        app: what lies inside.
        service: its audit log and exporter of spans are used.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and write the line when all is done."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = begin_record(scope)
        request_id.set(record.id)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                headers = [*message.get("headers", ()), (b"x-request-id", record.id.encode())]
                if record.limits is not None:
                    headers += record.limits.headers()
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            record.end()
            self._write(record)
            if self._service.traces is not None:
                self._service.traces.export(spans(record, scope))

    def _write(self, record: RequestRecord) -> None:
        logs = access_log.isEnabledFor(logging.INFO)
        audit = self._service.audit_log
        if not logs and audit is None:
            return
        fields = record.fields()
        if logs:
            # No format string of logging: a path may have percent signs.
            access_log.info(f"{record.method} {record.path} {record.status}", extra={"fields": fields})
        if audit is not None:
            audit.write({"time": timestamp(record.started_at), **fields})
