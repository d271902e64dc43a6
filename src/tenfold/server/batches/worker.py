"""Batches at work: validated, answered beside online requests, written out; all from one event loop."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgspec
from starlette.types import Message

from tenfold.server.batches.endpoints import ENDPOINTS
from tenfold.server.batches.objects import (
    Answer,
    Batch,
    BatchProblem,
    BatchProblems,
    LineError,
    LineResponse,
    LineResult,
    PendingLine,
    Status,
)
from tenfold.server.batches.storage_errors import FolderInUseError, StorageError
from tenfold.server.batches.store import Store, is_begun
from tenfold.server.batches.validation import body_of, read_lines
from tenfold.server.errors import ApiError, ErrorReply, error_info
from tenfold.server.generation import Job, Writer, complete
from tenfold.server.service import Service

P = ParamSpec("P")
T = TypeVar("T")

# Lower runs first: whoever waits for an answer goes before batches.
PRIORITY = 1 << 30
_PAGE = 256
_RETRY_S = 2.0
# Overload, a shutdown and a full disk pass; the request is asked again then.
_PASSING = (429, 503, 507)

_logger = logging.getLogger("tenfold.server")
_encode = msgspec.json.Encoder().encode


class Batches:
    """The files and batches of a server.

    The data folder is taken at the first use, or at the start when an earlier server left something there; a server
    that nobody asks for batches writes nothing.

    Args:
        service: its engine answers; its settings have the data folder and the limits.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        folder = service.settings.data_dir
        self._folder = Path(folder) / "batches" if folder else None
        self._store: Store | None = None
        self._store_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tenfold-store")
        # Reads requests in a thread of its own, lest online prompts wait behind those of a batch.
        self._text_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tenfold-batch-text")
        # Batches must leave room in the engine's queue, or online requests would be refused.
        self._width = max(1, min(service.settings.batch_concurrency, service.engine.max_waiting // 2))
        self._to_validate = asyncio.Event()
        self._to_work = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._running: set[asyncio.Task[Answer]] = set()
        self._current: str | None = None
        self._cancelled = False
        self._problems: dict[str, StorageError] = {}

    async def call(self, method: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method of the store in its thread. Raises as the method does, or as opening the store does."""

        def run() -> T:
            if self._folder is None:
                raise ApiError(501, "This server keeps no files: it has no data folder (--data-dir).")
            if self._store is None:
                self._store = Store(self._folder)
            return method(self._store, *args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(self._store_thread, run)

    async def add(self, batch: Batch) -> Batch:
        """Keep a new batch and begin with it."""
        batch = await self.call(Store.add_batch, batch, limit=self._service.settings.max_batches)
        self._wake()
        return batch

    async def cancel(self, batch_id: str) -> Batch:
        """Ask a batch to end; what it has so far is written out."""
        batch = await self.call(Store.cancel, batch_id)
        if batch_id == self._current:
            self._cancelled = True
            for task in self._running:
                task.cancel()
        self._wake()
        return batch

    def shown(self, batch: Batch) -> Batch:
        """The batch as clients see it: while the disk is full, it says so."""
        if not self._problems or batch.id != self._current:
            return batch
        problem = next(iter(self._problems.values()))
        told = BatchProblem(code=problem.code or "", message=f"The batch waits. {problem}")
        return msgspec.structs.replace(batch, errors=BatchProblems(data=[told]))

    def start(self) -> None:
        """Begin to work, first on what an earlier server left."""
        self._tasks = [
            asyncio.create_task(self._serve(self._to_validate, ("validating",), self._validate)),
            asyncio.create_task(
                self._serve(self._to_work, ("in_progress", "finalizing", "cancelling"), self._work)
            ),
        ]
        if self._folder is not None and is_begun(self._folder):
            self._wake()

    def pause(self) -> None:
        """Stop working; the next server goes on."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Stop working and let go of the data folder."""
        self.pause()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._text_thread.shutdown(wait=False, cancel_futures=True)
        if self._store is not None:
            await self.call(Store.close)
        self._store_thread.shutdown(wait=False)

    def _wake(self) -> None:
        self._to_validate.set()
        self._to_work.set()

    async def _serve(
        self, wake: asyncio.Event, statuses: tuple[Status, ...], advance: Callable[[Batch], Awaitable[None]]
    ) -> None:
        """Advance the oldest batch in one of these states, again and again."""
        while True:
            await wake.wait()
            wake.clear()
            try:
                while batch := await self._keep_trying(Store.oldest, statuses, self._service.model_names):
                    await advance(batch)
            except FolderInUseError as error:
                _logger.warning("%s", error)
            except Exception:
                _logger.exception("A batch met an unexpected error; it is tried again in a minute.")
                asyncio.get_running_loop().call_later(60, wake.set)

    async def _keep_trying(
        self, method: Callable[Concatenate[Store, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a method of the store until the disk lets it."""
        name = method.__name__
        while True:
            try:
                result = await self.call(method, *args, **kwargs)
            except StorageError as error:
                if name not in self._problems:
                    _logger.error("Batches wait: %s", error)
                self._problems[name] = error
                await asyncio.sleep(_RETRY_S)
            else:
                if self._problems.pop(name, None) is not None:
                    _logger.warning("The data folder can be used again; batches go on.")
                return result

    async def _validate(self, batch: Batch) -> None:
        check = partial(ENDPOINTS[batch.endpoint].check, self._service)
        path = await self.call(Store.path, batch.input_file_id)
        limit = self._service.settings.max_body_bytes
        read = partial(read_lines, path, batch.endpoint, check, max_line_bytes=limit)
        try:
            lines, problems = await asyncio.get_running_loop().run_in_executor(self._text_thread, read)
        except OSError as error:
            problem = f"The input file cannot be read: {error.strerror}."
            lines, problems = [], [BatchProblem(code="unreadable_file", message=problem)]
        if problems:
            failed = batch.moved("failed", errors=BatchProblems(data=problems))
            await self._keep_trying(Store.fail, failed)
        else:
            await self._keep_trying(Store.begin, batch.id, lines)
            self._to_work.set()

    async def _work(self, batch: Batch) -> None:
        """Bring a batch to its end."""
        self._current, self._cancelled = batch.id, batch.status == "cancelling"
        try:
            if batch.status == "in_progress":
                await self._answer_all(batch)
            if self._cancelled:
                await self._drop_rest(batch)
            await self._keep_trying(Store.finalize, batch.id)
        finally:
            self._current = None

    async def _answer_all(self, batch: Batch) -> None:
        """Answer every request that has no answer yet, a few at once, until cancelled."""
        waiting: deque[PendingLine] = deque()
        last = 0
        try:
            while not self._cancelled:
                if not waiting:
                    page = await self._keep_trying(Store.pending, batch.id, last, _PAGE)
                    waiting.extend(page)
                    last = page[-1].number if page else last
                while waiting and len(self._running) < self._width:
                    self._running.add(asyncio.create_task(self._answer(batch, waiting.popleft())))
                if not self._running:
                    return
                done, self._running = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                # Whatever ended meanwhile shares one write to the disk.
                answers = [task.result() for task in done if not task.cancelled()]
                await self._keep_trying(Store.record, batch.id, answers)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            self._running = set()

    async def _answer(self, batch: Batch, line: PendingLine) -> Answer:
        """Run one request; its own errors are its answer."""
        service = self._service
        while True:
            try:
                text = await self.call(Store.read_line, batch.input_file_id, line)
                return _answer(line, 200, _encode(await self._reply(batch.endpoint, text)))
            except Exception as error:
                problem = service.explain(error)
            if problem.status not in _PASSING and service.engine.stats().dead is None:
                service.metrics.errors[problem.status] += 1
                return _answer(line, problem.status, _encode(ErrorReply(error_info(problem))))
            await asyncio.sleep(_RETRY_S)

    async def _reply(self, endpoint: str, text: bytes) -> object:
        service = self._service
        timer = service.metrics.begin()

        def open_job() -> tuple[Job, Writer]:
            return ENDPOINTS[endpoint].open_job(service, body_of(text), timer)

        job, writer = await asyncio.get_running_loop().run_in_executor(self._text_thread, open_job)
        return await complete(service, msgspec.structs.replace(job, priority=PRIORITY), writer, _nobody)

    async def _drop_rest(self, batch: Batch) -> None:
        """Answer what was not run that it was cancelled."""
        error = LineError(
            code="batch_cancelled", message="The batch was cancelled before this request was done."
        )
        while page := await self._keep_trying(Store.pending, batch.id, 0, _PAGE):
            answers = [
                Answer(line.number, True, _encode(_result(line, response=None, error=error))) for line in page
            ]
            await self._keep_trying(Store.record, batch.id, answers)


def _answer(line: PendingLine, status: int, body: bytes) -> Answer:
    response = LineResponse(status_code=status, request_id=_new_id("req"), body=msgspec.Raw(body))
    return Answer(line.number, status != 200, _encode(_result(line, response=response, error=None)))


def _result(line: PendingLine, *, response: LineResponse | None, error: LineError | None) -> LineResult:
    return LineResult(id=_new_id("batch_req"), custom_id=line.custom_id, response=response, error=error)


def _new_id(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex}"


async def _nobody() -> Message:
    """The connection of a client that never goes away."""
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]
