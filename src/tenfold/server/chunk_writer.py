"""Writing pieces of a streamed body straight to the socket."""

from __future__ import annotations

from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_EXTENSION = "tenfold.chunks"


class ChunkWriter:
    """Writes chunks of a response that `send` has begun, without a switch of tasks.

    Args:
        cycle: uvicorn's state of the request.
    """

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    def is_open(self) -> bool:
        """Whether a chunk may be written now: the response streams, and the client keeps up."""
        cycle = self._cycle
        return not (cycle.flow.write_paused or cycle.disconnected or cycle.response_complete) and bool(
            cycle.chunked_encoding and cycle.response_started
        )

    def write(self, body: bytes) -> None:
        """Write a chunk; it must not be empty, which would end the body."""
        self._cycle.transport.write(b"%x\r\n%b\r\n" % (len(body), body))


def offer_chunks(cycle: RequestResponseCycle) -> None:
    """Let the application find the request's ChunkWriter in its scope."""
    extensions: dict[str, Any] = cycle.scope.setdefault("extensions", {})
    extensions[_EXTENSION] = ChunkWriter(cycle)


def chunk_writer(scope: Scope) -> ChunkWriter | None:
    """The request's ChunkWriter; None on other servers, and for a HEAD request."""
    if scope["method"] == "HEAD":
        return None
    writer: ChunkWriter | None = scope.get("extensions", {}).get(_EXTENSION)
    return writer
