"""Sending the load: closed loop (clients) or open loop (Poisson arrivals), and a record of each request."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from tenfold.lab.load.connection import Connection, ConnectionLostError, Response, Target
from tenfold.lab.load.settings import ENDPOINTS, LoadSettings
from tenfold.lab.load.stream import StreamReader


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """One request as the client saw it. Times are the clock's, in seconds.

    Args:
        due: when it was to be sent; latencies count from here.
        end: when its response ended, or it failed.
        arrivals: when its pieces of text came.
        prompt_tokens, cached_tokens, output_tokens: the server's count; None when it sent none.
        error: kind of failure, None when it completed.
        reply: the first bytes that came of a response that failed.
    """

    due: float
    end: float
    arrivals: list[float]
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    error: str | None = None
    reply: str = ""


class LoadGenerator:
    """Sends requests over kept-alive connections.

    Args:
        target: the server.
        settings: the load.
        on_done: called after each request with (done, total).
    """

    def __init__(
        self, target: Target, settings: LoadSettings, on_done: Callable[[int, int], None] | None = None
    ) -> None:
        self._target = target
        self._settings = settings
        self._on_done = on_done
        self._idle: list[Connection] = []
        self._live = 0
        self.peak_concurrency = 0

    async def run(self, bodies: Sequence[bytes]) -> list[Trace]:
        """Send a request for each body; return their traces in the same order. Failures are traces too."""
        traces: list[Trace | None] = [None] * len(bodies)
        done = 0

        async def send(number: int, due: float) -> None:
            nonlocal done
            traces[number] = await self._request(bodies[number], due)
            done += 1
            if self._on_done is not None:
                self._on_done(done, len(bodies))

        try:
            if self._settings.request_rate is None:
                await self._closed_loop(send, len(bodies))
            else:
                await self._open_loop(send, len(bodies), self._settings.request_rate)
        finally:
            for connection in self._idle:
                connection.close()
            self._idle.clear()
        return [trace for trace in traces if trace is not None]

    async def _closed_loop(self, send: _Send, total: int) -> None:
        numbers = iter(range(total))

        async def client() -> None:
            for number in numbers:
                await send(number, time.perf_counter())

        await asyncio.gather(*(client() for _ in range(min(self._settings.concurrency or 1, total))))

    async def _open_loop(self, send: _Send, total: int, rate: float) -> None:
        arrivals = random.Random(f"arrivals {self._settings.seed}")
        due = time.perf_counter()
        tasks = []
        for number in range(total):
            if number:
                due += arrivals.expovariate(rate)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(send(number, due)))
        await asyncio.gather(*tasks)

    async def _request(self, body: bytes, due: float) -> Trace:
        reader = StreamReader()
        self._live += 1
        self.peak_concurrency = max(self.peak_concurrency, self._live)
        try:
            response = await asyncio.wait_for(self._exchange(body, reader), self._settings.timeout)
            error = _problem(response, reader)
        except asyncio.TimeoutError:
            error = f"no end within {self._settings.timeout:g} s"
        except ConnectionLostError as lost:
            error = lost.kind
        except OSError as problem:
            error = f"no connection ({type(problem).__name__})"
        finally:
            self._live -= 1
        usage = reader.usage
        details = usage.prompt_tokens_details if usage is not None else None
        return Trace(
            due=due,
            end=time.perf_counter(),
            arrivals=reader.arrivals,
            prompt_tokens=usage.prompt_tokens if usage is not None else None,
            cached_tokens=details.cached_tokens if details is not None else None,
            output_tokens=usage.completion_tokens if usage is not None else None,
            error=error,
            reply="" if error is None else reader.head.decode("utf-8", "replace"),
        )

    async def _exchange(self, body: bytes, reader: StreamReader) -> Response:
        request = self._target.request("POST", ENDPOINTS[self._settings.endpoint], body)
        while self._idle:
            # A kept connection may have been closed by the server meanwhile; then another takes the request.
            try:
                return await self._send_on(self._idle.pop(), request, reader)
            except ConnectionLostError as lost:
                if lost.answered:
                    raise
        return await self._send_on(await self._target.connect(), request, reader)

    async def _send_on(self, connection: Connection, request: bytes, reader: StreamReader) -> Response:
        try:
            response = await connection.exchange(request, reader.feed)
        except BaseException:
            connection.close()
            raise
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.close()
        return response


_Send = Callable[[int, float], Coroutine[Any, Any, None]]


def _problem(response: Response, reader: StreamReader) -> str | None:
    """What kind of failure a finished response is, if it is one."""
    if response.status != 200:
        return f"HTTP {response.status}"
    if reader.error is not None:
        return reader.error
    if not reader.complete and reader.finish_reason is None:
        return "the stream ended early"
    return None
