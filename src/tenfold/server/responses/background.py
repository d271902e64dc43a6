"""Responses that are computed while nobody waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.types import Message

from tenfold.core.errors import OverloadedError
from tenfold.server.fanin import FanIn
from tenfold.server.generation import Job, admit
from tenfold.server.responses.request import Item
from tenfold.server.responses.store import ResponseStore
from tenfold.server.responses.writer import ResponseWriter
from tenfold.server.service import Service

MAX_BACKGROUND = 256


class Background:
    """Runs background responses and knows which can be cancelled.

    Args:
        service: the engine and how errors are told.
        store: where states are kept.
    """

    def __init__(self, service: Service, store: ResponseStore) -> None:
        self._service = service
        self._store = store
        self._tasks: dict[str, asyncio.Task[None]] = {}
        for kept in store.interrupted():
            failed = _failed(kept.response, "server_error", "The server ended before the response was done.")
            store.put(failed, kept.previous, kept.input)

    def start(self, job: Job, writer: ResponseWriter, keep: Callable[[Item], object]) -> Item:
        """Begin a response; returns its body as of now.

        Raises:
            OverloadedError: too many are computed already.
        """
        if len(self._tasks) >= MAX_BACKGROUND:
            raise OverloadedError(f"{len(self._tasks)} background responses run already; try again later.")
        admit(self._service, job)
        body = writer.body("in_progress")
        keep(body)
        task = asyncio.create_task(self._run(job, writer, keep))
        self._tasks[job.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(job.id, None))
        return body

    async def cancel(self, response_id: str) -> bool:
        """Stop a response, whose state becomes cancelled; False if it is not running."""
        task = self._tasks.get(response_id)
        if task is None:
            return False
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return True

    async def _run(self, job: Job, writer: ResponseWriter, keep: Callable[[Item], object]) -> None:
        outputs = FanIn(self._service.engine, job.engine_requests(), _never)
        try:
            while batch := await outputs.next():
                writer.add(batch)
            writer.whole()
        except asyncio.CancelledError:
            keep(writer.body("cancelled"))
            raise
        except Exception as problem:
            error = self._service.explain(problem)
            self._service.metrics.errors[error.status] += 1
            keep(_failed(writer.body("failed"), error.code or "server_error", str(error)))
        finally:
            await outputs.close()


async def _never() -> Message:
    """Of a request whose client cannot go away."""
    await asyncio.Event().wait()
    raise AssertionError("the event is never set")


def _failed(body: Item, code: str, message: str) -> Item:
    return {**body, "status": "failed", "error": {"code": code, "message": message}}
