"""The engine on its own thread, for asyncio callers: one iterator of RequestOutputs a request."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec

from tenfold.core.errors import EngineError, OverloadedError
from tenfold.core.request import Request, RequestOutput
from tenfold.core.stats import EngineStats
from tenfold.core.structured_output import StructuredOutput
from tenfold.engine.core import EngineCore
from tenfold.engine.model import Model
from tenfold.text.chat_template import ChatTemplate
from tenfold.text.tokenizer import Tokenizer

_log = logging.getLogger(__name__)
# Each step's outputs cross to the event loop in one call.
_Outputs = list[RequestOutput]


class _Stream:
    """A running request and who hears of it; `news` gathers what one step added."""

    __slots__ = ("hear", "news", "unfinished")

    def __init__(self, completions: int, hear: Callable[[_Outputs], None]) -> None:
        self.unfinished = completions
        self.hear = hear
        self.news: _Outputs = []


class AsyncEngine:
    """Runs an EngineCore on a thread.

    Args:
        model: the loaded model.
        model_name: the name clients use.
    """

    def __init__(self, model: Model, model_name: str | None = None) -> None:
        self.model = model
        self.model_name = model_name or model.name
        self._core = EngineCore(model)
        self._streams: dict[str, _Stream] = {}
        self._inbox: deque[Callable[[], _Outputs]] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._draining = False
        self._dead: str | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self.model.tokenizer

    @property
    def chat_template(self) -> ChatTemplate | None:
        """The model's chat template, None for base models."""
        return self.model.chat_template

    @property
    def generation_defaults(self) -> Mapping[str, float | int]:
        """Sampling defaults the model's authors recommend."""
        return self.model.generation_defaults

    @property
    def max_model_len(self) -> int:
        """Longest prompt plus output in tokens that this engine can run."""
        return self.model.longest_sequence

    @property
    def max_waiting(self) -> int:
        """Sequences that may wait; more are refused."""
        return self.model.settings.max_waiting

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        return self.model.program.vocab_size

    def compile_structured(self, structured: StructuredOutput) -> None:
        """Compile what a request wants ahead of it. Takes up to seconds; safe in any thread.

        Raises:
            InvalidRequestError: it cannot be compiled.
        """
        self.model.grammars.get(structured)

    async def start(self) -> None:
        """Start the engine's thread; outputs go to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="tenfold-engine", daemon=True)
        self._thread.start()

    async def drain(self, timeout: float) -> bool:
        """Take no new requests and wait until the running ones end; False when the timeout came first."""
        self._draining = True
        deadline = time.monotonic() + timeout
        while self._streams and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        return not self._streams

    async def stop(self) -> None:
        """Abort what runs and end the thread."""
        self._draining = True
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    async def generate(self, request: Request) -> AsyncIterator[RequestOutput]:
        """Yield the outputs of all n completions as they come; closing the iterator aborts the request.

        Raises:
            InvalidRequestError: the request can never run.
            OverloadedError: the queue is full, or the engine is shutting down.
            EngineError: the engine has failed.
        """
        ready: _Outputs = []
        wake = asyncio.Event()

        def hear(outputs: _Outputs) -> None:
            ready.extend(outputs)
            wake.set()

        abort = self.listen(request, hear)
        unfinished = request.sampling.n
        try:
            while unfinished:
                await wake.wait()
                wake.clear()
                outputs, ready[:] = ready[:], []
                for output in outputs:
                    unfinished -= output.finish_reason is not None
                    yield output
        finally:
            abort()

    def listen(self, request: Request, hear: Callable[[_Outputs], None]) -> Callable[[], None]:
        """Run a request; returns a function that aborts it, harmless after the end.

        Args:
            request: what to run.
            hear: called in the event loop with all that a step added, until each completion had its last output; it
                must not raise.

        Raises:
            As generate.
        """
        self._admit(request)
        stream = self._streams[request.request_id] = _Stream(request.sampling.n, hear)
        self._send(lambda: self._add(request))

        def abort() -> None:
            if self._streams.get(request.request_id) is stream:
                del self._streams[request.request_id]
                self._send(lambda: self._core.abort(request.request_id))

        return abort

    def stats(self) -> EngineStats:
        """Counters and gauges; safe from any thread."""
        return msgspec.structs.replace(self._core.stats(), dead=self._dead)

    def check(self) -> None:
        """Assert that the engine's books balance; call it when idle."""
        self._core.check()

    def _admit(self, request: Request) -> None:
        if self._dead is not None:
            raise EngineError(f"The engine has stopped: {self._dead}")
        if self._draining:
            raise OverloadedError("The server is shutting down.", retry_after=5, shutting_down=True)
        if request.request_id in self._streams:
            raise EngineError(f"Request id {request.request_id!r} is in use.")
        self._core.check_request(request)
        live = sum(stream.unfinished for stream in self._streams.values())
        limit = self.model.settings.max_num_seqs + self.max_waiting
        if live + request.sampling.n > limit:
            raise OverloadedError(f"{live} sequences run or wait; the limit is {limit}. Try again later.")

    def _add(self, request: Request) -> _Outputs:
        try:
            self._core.add(request)
        except Exception as problem:  # the door has checked; what slips through must not stop the thread
            sentence = str(problem)
            return [
                RequestOutput(request_id=request.request_id, index=i, finish_reason="error", error=sentence)
                for i in range(request.sampling.n)
            ]
        return []

    def _send(self, command: Callable[[], _Outputs]) -> None:
        with self._wake:
            self._inbox.append(command)
            self._wake.notify()

    def _run(self) -> None:
        core, checks = self._core, self.model.settings.debug_checks
        while True:
            with self._wake:
                while not (self._inbox or self._stopping or core.has_work()):
                    self._wake.wait()
                if self._stopping:
                    break
            try:
                outputs = self._take_in() + core.step()
                if checks and not (self._inbox or core.has_work()):
                    core.check()
            except Exception as problem:
                _log.exception("The engine failed in a step; every running request ends with an error.")
                self._dead = f"{type(problem).__name__}: {problem}"
                outputs = core.fail_all(f"The engine failed in a step ({self._dead}).")
            if outputs or self._dead is not None:  # newcomers in the inbox must hear of the end too
                self._post(self._deliver, outputs)
            if self._dead is not None:
                return
        # Who came at the last moment gets an end too.
        outputs = self._take_in()
        self._post(self._deliver, outputs + core.fail_all("The server is shutting down."))

    def _take_in(self) -> _Outputs:
        outputs: _Outputs = []
        while self._inbox:
            outputs += self._inbox.popleft()()
        return outputs

    def _post(self, call: Callable[..., None], *args: Any) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            _log.debug("The event loop is closed; outputs are dropped.")

    def _deliver(self, outputs: _Outputs) -> None:
        streams = self._streams
        touched = []
        for output in outputs:
            stream = streams.get(output.request_id)
            if stream is not None:
                if not stream.news:
                    touched.append((output.request_id, stream))
                stream.news.append(output)
                stream.unfinished -= output.finish_reason is not None
        for request_id, stream in touched:
            self._tell(request_id, stream)
        if self._dead is not None:
            for request_id, stream in list(streams.items()):
                stream.news = [
                    RequestOutput(request_id=request_id, index=i, finish_reason="error", error=self._dead)
                    for i in range(stream.unfinished)
                ]
                stream.unfinished = 0
                self._tell(request_id, stream)

    def _tell(self, request_id: str, stream: _Stream) -> None:
        news, stream.news = stream.news, []
        if not stream.unfinished:
            del self._streams[request_id]
        stream.hear(news)
