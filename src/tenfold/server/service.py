"""What every route needs: the engine, the settings, the metrics, and the way into them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tenfold.config.server import ServerSettings
from tenfold.core.errors import EngineError, OverloadedError, TenfoldError
from tenfold.observe.audit_log import AuditLog
from tenfold.observe.metrics import Metrics
from tenfold.observe.otlp import SpanExporter
from tenfold.server.auth import Keys
from tenfold.server.engine import Engine
from tenfold.server.errors import ApiError, ClientGoneError, api_error, error_response
from tenfold.server.limits import BodyReader
from tenfold.server.logprobs import TokenTexts
from tenfold.server.parsing import ReplyParsing
from tenfold.server.prompts import Prompts
from tenfold.server.record import current_record

_logger = logging.getLogger("tenfold.server")
T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]

# A body this short is decoded, rendered and tokenized faster than a thread is woken.
_SHORT_BODY = 16_384
_CLIENT_CLOSED = 499


class Service:
    """The server's parts, shared by its routes; used from one event loop.

    Args:
        engine: where requests run.
        settings: limits, keys and names.

    Raises:
        TenfoldError: the key file or the audit log cannot be used.
    """

    def __init__(self, engine: Engine, settings: ServerSettings) -> None:
        self.engine = engine
        self.settings = settings
        self.model_names = settings.served_model_names or (engine.model_name,)
        self.keys = Keys(settings)
        self.audit_log = None if settings.audit_log is None else AuditLog(Path(settings.audit_log))
        self.traces = SpanExporter(settings.otlp_traces_endpoint) if settings.otlp_traces_endpoint else None
        # What `reload` calls; each may raise TenfoldError and then has changed nothing.
        self.reloads: list[Callable[[], None]] = [self.keys.load]
        if self.audit_log is not None:
            self.reloads.append(self.audit_log.reopen)
        self.metrics = Metrics(self.model_names[0])
        self.bodies = BodyReader(settings)
        self.prompts = Prompts(engine)
        self.parsing = ReplyParsing(engine, settings)
        self.token_texts = TokenTexts(engine.tokenizer)
        self.created = int(time.time())
        self.in_flight = 0
        self.draining = False
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="tenfold-text")
        # Texts of any length, which no model's context bounds, must not keep prompts waiting.
        self._long_threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tenfold-long-text")

    def endpoint(
        self, handler: Handler, *, shape: Callable[[ApiError], Response] = error_response
    ) -> Handler:
        """The handler, with every error answered in the given shape, OpenAI's if none is given."""

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except ClientGoneError:
                return Response(status_code=_CLIENT_CLOSED)
            except Exception as error:
                return self.refuse(self.explain(error), shape)

        return answer

    def explain(self, error: BaseException) -> ApiError:
        """Any error as what the client is told."""
        if self.draining and isinstance(error, EngineError):
            # What the engine ends at a shutdown did not fail: it can be asked again elsewhere.
            error = OverloadedError(str(error), retry_after=5, shutting_down=True)
        explained = api_error(error)
        _record(explained)
        return explained

    def refuse(self, error: ApiError, shape: Callable[[ApiError], Response] = error_response) -> Response:
        """The reply for an error, counted in the metrics."""
        _record(error)
        self.metrics.errors[error.status] += 1
        return shape(error)

    async def prepare(
        self,
        read: Callable[[bytes], T],
        request: Request,
        *,
        template: bool = False,
        slow: Callable[[bytes], bool] = lambda body: False,
        unlimited: bool = False,
    ) -> T:
        """Read the request's body and turn it into a job by `read`.

        Args:
            read: decodes, checks and tokenizes; runs in a thread when that may take long.
            request: whose body.
            slow: whether `read` may take long over a body, however short.
            template: `read` renders a template, which may loop until its time is up, however short the body.
            unlimited: `read` takes texts that no model's context bounds; long ones wait for each other.
        """
        async with self.bodies.body(request) as body:
            if len(body) <= _SHORT_BODY and not template and not slow(body):
                return read(body)
            self.check_queue()
            threads = self._long_threads if unlimited and len(body) > _SHORT_BODY else self._threads
            # In the request's context, so that what is made or logged there belongs to it.
            context = copy_context()
            return await asyncio.get_running_loop().run_in_executor(threads, context.run, read, body)

    def check_model(self, name: str | None) -> str:
        """The name to answer with. Raises ApiError 404 when this server has no such model."""
        if name is None:
            return self.model_names[0]
        if name not in self.model_names:
            raise ApiError(
                404,
                f"The model {name[:100]!r} is not served here; ask for {' or '.join(self.model_names)}.",
                param="model",
                code="model_not_found",
            )
        return name

    def check_queue(self) -> None:
        """Raise OverloadedError when the engine's queue is full, before any work goes into a request."""
        waiting = self.engine.stats().num_waiting
        if waiting >= self.engine.max_waiting:
            raise OverloadedError(f"{waiting} requests are waiting, this server's limit; try again soon.")

    def reload(self) -> list[str]:
        """Read keys and certificates again, open logs again; returns a sentence for each that failed."""
        problems = []
        for reload in self.reloads:
            try:
                reload()
            except TenfoldError as problem:
                problems.append(f"{problem} What was loaded before stays.")
        for sentence in problems:
            _logger.error("%s", sentence)
        if not problems:
            _logger.info("Reloaded.")
        return problems

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._long_threads.shutdown(wait=False, cancel_futures=True)

    def close_logs(self) -> None:
        """Write what audit log and traces have still to write, after the last request."""
        if self.audit_log is not None:
            self.audit_log.close()
        if self.traces is not None:
            self.traces.close()


def _record(error: ApiError) -> None:
    record = current_record.get()
    if record is not None:
        record.error = error.code or str(error.status)


def json_response(body: object, status: int = 200) -> Response:
    """A struct or plain object as a JSON reply."""
    return Response(msgspec.json.encode(body), status_code=status, media_type="application/json")
