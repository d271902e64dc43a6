"""The outputs of one HTTP request: several engine requests as one flow, ended when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
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
        self._on_disconnect = on_disconnect
        self._items: Batch = []
        self._news = asyncio.Event()
        self._take: Callable[[Batch], bool] | None = None
        self._error: BaseException | None = None
        self._unfinished = sum(request.sampling.n for request in requests)
        self._aborts: list[Callable[[], None]] = []
        try:
            for at, request in enumerate(requests):
                self._aborts.append(engine.listen(request, partial(self._hear, at)))
        except Exception as error:
            self._fail(error)
        self._watch = asyncio.create_task(self._await_disconnect(receive))

    async def next(self, take: Callable[[Batch], bool] | None = None) -> Batch:
        """New outputs as (number of the prompt, output), in order of arrival; an empty list at the end.

        Args:
            take: offered each batch as it comes while this waits; what it takes (True) is not returned. It spares a
                switch of tasks for every token.

        Raises the engine's error after the outputs that came before it, what `take` raised, or ClientGoneError.
        """
        while True:
            self._take = take
            await self._news.wait()
            self._take = None
            if self._unfinished and self._error is None:
                self._news.clear()
            if self._items:
                items, self._items = self._items, []
                return items
            if self._error is not None:
                raise self._error
            if not self._unfinished:
                return []

    async def close(self) -> None:
        """Abort what still runs."""
        self._abort()
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)

    async def __aenter__(self) -> FanIn:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _hear(self, at: int, outputs: list[RequestOutput]) -> None:
        if self._error is not None:
            return
        for output in outputs:
            self._unfinished -= output.finish_reason is not None
        batch = [(at, output) for output in outputs]
        if self._take is not None and not self._items:
            try:
                taken = self._take(batch)
            except Exception as error:
                self._fail(error)
                return
            if taken:
                if not self._unfinished:
                    self._news.set()
                return
        self._items += batch
        self._news.set()

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if self._unfinished:
            self._on_disconnect()
        self._fail(ClientGoneError())

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        # Nobody will read the rest: stop it now, not when the writer next looks.
        self._abort()
        self._news.set()

    def _abort(self) -> None:
        for abort in self._aborts:
            abort()
        self._aborts.clear()
