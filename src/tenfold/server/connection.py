"""A connection with bounds on the head of a request, and errors in OpenAI's shape even for broken HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tenfold.observe.logs import access_log
from tenfold.server.chunk_writer import offer_chunks
from tenfold.server.errors import ApiError, ErrorReply, error_info
from tenfold.server.http1_parser import Http1Parser
from tenfold.server.record import new_request_id

MAX_HEAD_BYTES = 65_536
HEAD_TIMEOUT_S = 30.0
_GOODBYE_S = 0.2


class Connection(HttpToolsProtocol):
    """uvicorn's connection, and four things it leaves out.

    A request's head is bounded in bytes and in time, so that endless or dripping headers hold nothing. When a
    client that sent several requests at once goes away, all of them notice, not only the last. An offer of another
    protocol is passed over, and the request served.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.parser = Http1Parser(self)  # type: ignore[assignment]
        self._in_head = True
        self._heads = 0
        self._head_bytes = 0
        self._field_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._ahead: list[RequestResponseCycle] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client came."""
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client went away."""
        self._stop_head_timer()
        for cycle in self._ahead:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._ahead.clear()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends: close the connection when its reply is written."""
        super().shutdown()
        if self.scheme == "https" and self.transport.is_closing():
            # Over TLS it would stay open until an idle client says goodbye, too.
            self.loop.call_later(_GOODBYE_S, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        in_head, heads = self._in_head, self._heads
        if in_head:
            self._start_head_timer()
        super().data_received(data)
        # Looked at after parsing, and only if no head was completed: the bytes may have been a body's.
        if in_head and heads == self._heads:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse_long_head()

    def on_message_begin(self) -> None:
        """A request's first line begins."""
        self._in_head = True
        self._field_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field, or a trailer field after a chunked body; all are kept, so all are counted."""
        self._field_bytes += len(name) + len(value)
        if self._field_bytes > MAX_HEAD_BYTES:
            self._refuse_long_head()
        else:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A request's head is complete."""
        self._in_head = False
        self._heads += 1
        self._head_bytes = 0
        self._stop_head_timer()
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not None and self.cycle is not before:
            offer_chunks(self.cycle)
        if before is not None and before is not self.cycle and not before.response_complete:
            self._ahead = [cycle for cycle in self._ahead if not cycle.response_complete]
            self._ahead.append(before)

    def on_message_complete(self) -> None:
        """A request's body is complete."""
        if self.parser.should_upgrade():
            return  # not yet: the parser says so again when it has passed over the offer
        self._in_head = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What came is not HTTP."""
        self._refuse(ApiError(400, "This is not a valid HTTP request.", code="invalid_http"))

    def _refuse(self, error: ApiError) -> None:
        if self.transport.is_closing():
            return
        body = msgspec.json.encode(ErrorReply(error_info(error)))
        fields = {
            "request_id": new_request_id(),
            "client": self.client[0] if self.client else None,
            "status": error.status,
        }
        access_log.info("not a request: %s", error, extra={"fields": fields})
        head = (
            f"HTTP/1.1 {error.status} Refused\r\ncontent-type: application/json\r\n"
            f"x-request-id: {fields['request_id']}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _refuse_long_head(self) -> None:
        self._refuse(
            ApiError(431, f"The request's head is longer than {MAX_HEAD_BYTES} bytes, the limit; shorten it.")
        )

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_too_slow)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_too_slow(self) -> None:
        self._head_timer = None
        self._refuse(ApiError(408, f"The request's head did not come within {HEAD_TIMEOUT_S:g} seconds."))
