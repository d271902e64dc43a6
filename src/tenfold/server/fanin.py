"""The outputs of one HTTP request: several engine requests as one flow, ended when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType

from starlette.types import Receive

from tenfold.core.request import Request, RequestOutput
from tenfold.server.engine import Engine
from tenfold.server.errors import ClientGoneError

Batch = list[tuple[int, RequestOutput]]


class FanIn:
    """Runs engine requests and hands out what they produced since the last look.

    A step of a busy engine yields outputs faster than a socket takes them; whatever has gathered comes out
    as one batch, so that it costs one write. When the client disconnects, every engine request is aborted.

    Args:
        engine: where the requests run.
        requests: the engine requests, one a prompt.
        receive: the HTTP connection, its body already read.
        on_disconnect: called once when the client goes away before the end.
    """

    def __init__(
        self,
        engine: Engine,
        requests: Sequence[Request],
        receive: Receive,
        *,
        on_disconnect: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._on_disconnect = on_disconnect
        self._items: Batch = []
        self._news = asyncio.Event()
        self._error: BaseException | None = None
        self._live = len(requests)
        self._pumps = [asyncio.create_task(self._pump(at, request)) for at, request in enumerate(requests)]
        self._watch = asyncio.create_task(self._await_disconnect(receive))

    async def next(self) -> Batch:
        """New outputs as (number of the prompt, output), in order of arrival; an empty list at the end.

        Raises the engine's error after the outputs that came before it, or ClientGoneError.
        """
        while True:
            await self._news.wait()
            if self._live and self._error is None:
                self._news.clear()
            if self._items:
                items, self._items = self._items, []
                return items
            if self._error is not None:
                raise self._error
            if not self._live:
                return []

    async def close(self) -> None:
        """Abort what still runs and wait until the engine knows."""
        tasks = [*self._pumps, self._watch]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> FanIn:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _pump(self, at: int, request: Request) -> None:
        outputs: AsyncIterator[RequestOutput] | None = None
        try:
            outputs = self._engine.generate(request)
            async for output in outputs:
                self._items.append((at, output))
                self._news.set()
        except Exception as error:
            self._fail(error)
        finally:
            self._live -= 1
            self._news.set()
            close = getattr(outputs, "aclose", None)
            if close is not None:
                await close()

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if self._live:
            self._on_disconnect()
        self._fail(ClientGoneError())

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        # Nobody will read the rest: stop it now, not when the writer next looks.
        for pump in self._pumps:
            if pump is not asyncio.current_task():
                pump.cancel()
        self._news.set()
