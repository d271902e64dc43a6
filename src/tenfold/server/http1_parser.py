"""httptools' parser, that stays with HTTP/1.1 when a client offers another protocol."""

from __future__ import annotations

from typing import Any

import httptools


class Http1Parser:
    """Parses requests and tells a connection of them, as httptools.HttpRequestParser does.

    Some clients (Java's among them) offer HTTP/2 with every request: "Upgrade: h2c". A server that does not want it
    answers as if nothing had been said (RFC 9110, 7.8). httptools stops there instead and leaves the body unread; here
    a second parser goes on with the body.

    Args:
        connection: has the parser's callbacks, and `headers`, the fields of the request being parsed.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._parser = httptools.HttpRequestParser(connection)
        self._be_lenient()

    def feed_data(self, data: bytes) -> None:
        """Parse more bytes; raises httptools.HttpParserError for what is not HTTP."""
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
            else:
                return
            framing = [
                name + b": " + value + b"\r\n"
                for name, value in self._connection.headers
                if name in (b"content-length", b"transfer-encoding")
            ]
            self._parser = httptools.HttpRequestParser(_AfterHead(self._connection))
            self._be_lenient()
            self._parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(framing) + b"\r\n")

    def get_method(self) -> bytes:
        """The request's method."""
        return bytes(self._parser.get_method())

    def get_http_version(self) -> str:
        """Such as "1.1"."""
        return str(self._parser.get_http_version())

    def should_keep_alive(self) -> bool:
        """Whether the client wants the connection kept."""
        return bool(self._parser.should_keep_alive())

    def should_upgrade(self) -> bool:
        """Whether this request offers another protocol; its end is then told when its body was read, too."""
        return bool(self._parser.should_upgrade())

    def _be_lenient(self) -> None:
        # As uvicorn does: what follows a request with "Connection: close" does not spoil its answer.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)


class _AfterHead:
    """Callbacks that begin after the first head, which the connection has heard of already."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._heard = False

    def on_message_begin(self) -> None:
        if self._heard:
            self._connection.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if self._heard:
            self._connection.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._heard:
            self._connection.on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._heard:
            self._connection.on_headers_complete()
        self._heard = True

    def on_body(self, body: bytes) -> None:
        self._connection.on_body(body)

    def on_message_complete(self) -> None:
        self._connection.on_message_complete()
