"""Server-sent events: the streamed reply."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec
from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tenfold.server.chunk_writer import ChunkWriter, chunk_writer
from tenfold.server.errors import ApiError, ClientGoneError, ErrorReply, error_info
from tenfold.server.fanin import Batch, FanIn

DONE = b"data: [DONE]\n\n"
_MARK = "\x00text\x00"
_encode = msgspec.json.Encoder().encode
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Dialect(NamedTuple):
    """How an API ends its streams.

    Args:
        done: the last bytes of every stream.
        failed: the event that tells of an error amid a stream.
    """

    done: bytes
    failed: Callable[[ApiError], bytes]


class EventStream(Response):
    """Writes a FanIn's batches as events, one write a batch, and closes it whatever happens.

    Args:
        outputs: where the batches come from.
        first: the batch already read (it decided that the status is 200).
        encode: a batch as complete events.
        end: the last events, asked for after the last batch.
        explain: an error as what the client is told.
        dialect: how the stream ends.
    """

    def __init__(
        self,
        outputs: FanIn,
        first: Batch,
        *,
        encode: Callable[[Batch], bytes],
        end: Callable[[], bytes],
        explain: Callable[[BaseException], ApiError],
        dialect: Dialect,
    ) -> None:
        self.status_code = 200
        self.raw_headers = list(_HEADERS)
        self.background: BackgroundTask | None = None
        self._outputs = outputs
        self._first = first
        self._encode = encode
        self._end = end
        self._explain = explain
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the reply."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            chunks = chunk_writer(scope)
            take = None if chunks is None else partial(self._write, chunks)
            batch = self._first
            while batch:
                if body := self._encode(batch):
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                batch = await self._outputs.next(take)
            await send(
                {"type": "http.response.body", "body": self._end() + self._dialect.done, "more_body": False}
            )
        except (ClientGoneError, OSError):
            return
        except Exception as error:
            body = self._dialect.failed(self._explain(error)) + self._dialect.done
            await send({"type": "http.response.body", "body": body, "more_body": False})
        finally:
            await self._outputs.close()

    def _write(self, chunks: ChunkWriter, batch: Batch) -> bool:
        """Write a batch to the socket at once, unless the client reads too slowly."""
        if not chunks.is_open():
            return False
        if body := self._encode(batch):
            chunks.write(body)
        return True


class Template:
    """Events that differ in one text alone, which costs far less than to encode each.

    Args:
        sample: makes an event's data with the given text in it, once.
    """

    __slots__ = ("_after", "_before")

    def __init__(self, sample: Callable[[str], bytes]) -> None:
        # The text comes after everything that a client or an operator chooses, so the last mark is ours.
        self._before, _, self._after = event(sample(_MARK)).rpartition(_encode(_MARK))

    def fill(self, text: str) -> bytes:
        """The event with this text."""
        return self._before + _encode(text) + self._after


def event(data: bytes) -> bytes:
    """One event; `data` must have no line break, which JSON never has."""
    return b"data: " + data + b"\n\n"


def named_event(name: str, data: bytes) -> bytes:
    """One event with its name before its data."""
    return b"event: " + name.encode() + b"\n" + event(data)


def _failed(error: ApiError) -> bytes:
    return event(msgspec.json.encode(ErrorReply(error_info(error))))


OPENAI = Dialect(DONE, _failed)
