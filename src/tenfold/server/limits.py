"""Bounds at the door: bytes of a body, bytes of all bodies, seconds to send one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from tenfold.config.server import ServerSettings
from tenfold.server.errors import ApiError, ClientGoneError

# So much of a body that is too long is read and dropped: most clients look for an answer only when they have sent all,
# and a connection closed before that looks like a broken network to them.
DISCARDED_BYTES = 32 << 20


class BodyReader:
    """Reads request bodies and never holds more than the settings allow.

    Args:
        settings: max_body_bytes, max_pending_body_bytes and body_timeout_s are used.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._limit = settings.max_body_bytes
        self._pending_limit = settings.max_pending_body_bytes
        self._timeout = settings.body_timeout_s
        self.pending = 0

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """The request's body; it counts as held in memory until the block ends.

        Raises ApiError 413 (too long), 429 (too many bodies at once) or 408 (too slow).
        """
        self._check_announced(request)
        holder = [0]
        try:
            yield await asyncio.wait_for(self._read(request, holder), self._timeout)
        except (TimeoutError, asyncio.TimeoutError):
            message = f"The body did not arrive within {self._timeout:g} seconds; send it faster."
            raise ApiError(408, message, headers={"Connection": "close"}) from None
        except ClientDisconnect:
            raise ClientGoneError from None
        finally:
            self.pending -= holder[0]

    def _check_announced(self, request: Request) -> None:
        announced = request.headers.get("content-length", "")
        if announced.isdigit():
            # A client that asks first (Expect: 100-continue) is told at once.
            room = self._limit if "expect" in request.headers else self._limit + DISCARDED_BYTES
            if int(announced) > room:
                raise self._too_long()

    async def _read(self, request: Request, holder: list[int]) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > self._limit:
                self.pending -= holder[0]
                holder[0] = 0
                parts.clear()
                if size > self._limit + DISCARDED_BYTES:
                    raise self._too_long()
                continue
            holder[0] += len(part)
            self.pending += len(part)
            if self.pending > self._pending_limit:
                raise ApiError(
                    429,
                    f"The server is reading {self._pending_limit} bytes of other requests; try again soon.",
                    code="overloaded",
                    headers={"Retry-After": "1", "Connection": "close"},
                )
            parts.append(part)
        if size > self._limit:
            raise self._too_long()
        return b"".join(parts)

    def _too_long(self) -> ApiError:
        return ApiError(
            413,
            f"The request's body is longer than {self._limit} bytes, this server's limit; send less.",
            code="request_too_large",
            headers={"Connection": "close"},
        )
