"""One HTTP/1.1 connection that hands on a response's body as it arrives; lean, as it shares the CPUs."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping
from typing import cast
from urllib.parse import urlsplit

import httptools

from tenfold.core.errors import TenfoldError

OnBody = Callable[[bytes, float], None]


class ConnectionLostError(Exception):
    """The connection ended before the response did.

    Args:
        sentence: what happened.
        answered: some of the response had come.
        kind: under what to count it.
    """

    def __init__(self, sentence: str, *, answered: bool, kind: str = "the connection was lost") -> None:
        super().__init__(sentence)
        self.answered = answered
        self.kind = kind


class Target:
    """A server's address.

    Args:
        url: http://host:port or https://host:port, with or without a path such as /v1.
        api_key: sent as a bearer token.

    Raises:
        TenfoldError: the URL is not one of a server.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise TenfoldError(f"The URL {url!r} names no server; write it like http://127.0.0.1:8000.")
        self.host = parts.hostname
        self.port = port or (443 if parts.scheme == "https" else 80)
        self.ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self.base = parts.path.rstrip("/").removesuffix("/v1")
        self._headers = f"Host: {parts.netloc.rpartition('@')[2]}\r\nUser-Agent: tenfold-bench\r\n"
        if api_key is not None:
            self._headers += f"Authorization: Bearer {api_key}\r\n"

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The bytes of a request; `path` begins with /v1."""
        head = f"{method} {self.base}{path} HTTP/1.1\r\n{self._headers}"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return head.encode("latin-1") + b"\r\n" + body

    async def connect(self) -> Connection:
        """Open a connection.

        Raises:
            OSError: the server does not answer.
        """
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, self.host, self.port, ssl=self.ssl)
        return connection


class Response:
    """A finished response: its status and headers (names in lower case)."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}


class Connection(asyncio.Protocol):
    """Sends one request at a time; the parser calls its on_... methods."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[Response] | None = None
        self._on_body: OnBody | None = None
        self._response = Response()
        self._now = 0.0
        self.reusable = True

    async def exchange(self, request: bytes, on_body: OnBody) -> Response:
        """Send a request; `on_body` gets each piece of the body and the time it arrived.

        Raises:
            ConnectionLostError: the connection ended first.
        """
        if self._transport is None or self._transport.is_closing():
            raise ConnectionLostError("the connection is closed", answered=False)
        self._parser = httptools.HttpResponseParser(self)
        self._response = Response()
        self._on_body = on_body
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._done
        finally:
            self._done = None

    def close(self) -> None:
        """Close at once."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop connected this protocol."""
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Bytes came: note when, and parse them."""
        self._now = time.perf_counter()
        if self._done is None:
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as problem:
            kind = "the response is not HTTP"
            self._fail(ConnectionLostError(f"{kind}: {problem}", answered=True, kind=kind))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended; that also ends a body without a length."""
        self.reusable = False
        headers: Mapping[str, str] = self._response.headers
        bounded = "content-length" in headers or "transfer-encoding" in headers
        if exc is None and self._response.status and not bounded:
            self.on_message_complete()
            return
        sentence = str(exc or "the server closed the connection")
        self._fail(ConnectionLostError(sentence, answered=bool(self._response.status)))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header came."""
        self._response.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """All headers are here."""
        self._response.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """A piece of the body came."""
        if self._on_body is not None:
            self._on_body(body, self._now)

    def on_message_complete(self) -> None:
        """The response is whole."""
        if self._response.status < 200:
            return
        if self._done is not None and not self._done.done():
            self.reusable = self.reusable and self._parser.should_keep_alive()
            self._done.set_result(self._response)

    def _fail(self, problem: ConnectionLostError) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(problem)
