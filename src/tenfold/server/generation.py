"""From a checked job to a reply: what chats and completions have in common."""

from __future__ import annotations

import time
import uuid
from typing import Protocol

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive

from tenfold.core.errors import EngineError, OverloadedError
from tenfold.core.request import Request, RequestOutput, TokenLogprobs
from tenfold.core.sampling_params import SamplingParams
from tenfold.observe.metrics import RequestTimer
from tenfold.server.fanin import Batch, FanIn
from tenfold.server.protocol import GenerationRequest
from tenfold.server.record import current_record
from tenfold.server.replies import PromptTokensDetails, Usage
from tenfold.server.service import Service, json_response
from tenfold.server.sse import OPENAI, Dialect, EventStream


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A request that passed every check.

    Args:
        id: the reply's id; the engine's request ids begin with it.
        model: the model name to answer with.
        prompts: token ids of each prompt.
        sampling: how to pick tokens, for every prompt.
        stream: answer by events.
        usage_at_end: stream a last chunk with the usage.
        usage_always: stream the usage so far in every chunk.
        priority: see core.Request.
        cache_salt: see core.Request.
        token_ids: return the ids of the prompt and of the tokens made.
    """

    id: str
    model: str
    prompts: list[tuple[int, ...]]
    sampling: SamplingParams
    stream: bool
    usage_at_end: bool
    usage_always: bool
    priority: int
    cache_salt: str
    token_ids: bool

    def engine_requests(self) -> list[Request]:
        """One engine request a prompt."""
        return [
            Request(
                request_id=f"{self.id}-{number}",
                prompt_token_ids=prompt,
                sampling=self.sampling,
                priority=self.priority,
                cache_salt=self.cache_salt,
            )
            for number, prompt in enumerate(self.prompts)
        ]


class Writer(Protocol):
    """Shapes outputs into a reply; made for one request."""

    def chunks(self, batch: Batch) -> bytes:
        """The batch as complete events; empty when it shows nothing."""

    def end(self) -> bytes:
        """The events after the last output."""

    def add(self, batch: Batch) -> None:
        """Gather a batch for `whole`."""

    def whole(self) -> object:
        """The reply's body, after the last output."""


def make_job(
    request: GenerationRequest,
    *,
    prefix: str,
    model: str,
    prompts: list[tuple[int, ...]],
    sampling: SamplingParams,
) -> Job:
    """A Job of the fields that chats and completions share."""
    options = request.stream_options
    return Job(
        id=f"{prefix}-{uuid.uuid4().hex}",
        model=model,
        prompts=prompts,
        sampling=sampling,
        stream=bool(request.stream),
        usage_at_end=options is not None and bool(options.include_usage),
        usage_always=options is not None and bool(options.continuous_usage_stats),
        priority=request.priority or 0,
        cache_salt=request.cache_salt or "",
        token_ids=bool(request.return_token_ids),
    )


async def run(
    service: Service, http: HttpRequest, job: Job, writer: Writer, dialect: Dialect = OPENAI
) -> Response:
    """Run the job and answer; waits for the first output, so that a refusal gets its own status."""
    if not job.stream:
        return json_response(await complete(service, job, writer, http.receive))
    admit(service, job)
    outputs = FanIn(
        service.engine, job.engine_requests(), http.receive, on_disconnect=service.metrics.disconnected
    )
    try:
        batch = await outputs.next()
        # Errors inside the first batch still decide the status.
        check_batch(batch)
        return EventStream(
            outputs, batch, encode=writer.chunks, end=writer.end, explain=service.explain, dialect=dialect
        )
    except BaseException:
        await outputs.close()
        raise


async def complete(service: Service, job: Job, writer: Writer, receive: Receive) -> object:
    """Run the job to its end; returns the reply's body. It is aborted when `receive` says that the client has gone."""
    admit(service, job)
    outputs = FanIn(
        service.engine, job.engine_requests(), receive, on_disconnect=service.metrics.disconnected
    )
    try:
        while batch := await outputs.next():
            writer.add(batch)
    finally:
        await outputs.close()
    return writer.whole()


def admit(service: Service, job: Job) -> None:
    """Let a job go to the engine, and take what it may use from the limit of the key that asks.

    Raises OverloadedError when the queue is full, ApiError 429 when the key has not so many tokens left.
    """
    service.check_queue()
    sampling = job.sampling
    record = current_record.get()
    if record is not None:
        outputs = (sampling.max_tokens or 0) * sampling.n * len(job.prompts)
        record.model, record.response_id, record.sampling = job.model, job.id, sampling
        record.reserve(sum(map(len, job.prompts)), outputs)
    service.metrics.admitted(sampling.n, sampling.max_tokens)


def check_batch(batch: Batch) -> None:
    """Raise when an output says that its completion failed."""
    for _, output in batch:
        if output.finish_reason == "error":
            raise EngineError(output.error or "The engine failed while it computed this request; try again.")
        if output.finish_reason == "abort":
            message = output.error or "The engine stopped before this request was done; send it again."
            raise OverloadedError(message, retry_after=5, shutting_down=True)


class Tally:
    """Counts a request's tokens, for the usage, the metrics and the request's record.

    Args:
        timer: fed with every output.
        n: completions a prompt.
    """

    __slots__ = (
        "_cached",
        "_completion",
        "_ends",
        "_n",
        "_prompt",
        "_queued",
        "_record",
        "_scheduled",
        "_timer",
    )

    def __init__(self, timer: RequestTimer, n: int) -> None:
        self._timer = timer
        self._n = n
        self._prompt: dict[int, int] = {}
        self._cached: dict[int, int] = {}
        self._completion: dict[int, int] = {}
        self._ends: dict[int, str] = {}
        self._queued: float | None = None
        self._scheduled: float | None = None
        self._record = current_record.get()
        if self._record is not None:
            self._record.count(self)

    @property
    def finish_reasons(self) -> list[str]:
        """How each completion ended that has begun; "unfinished" if it did not."""
        return [self._ends.get(choice, "unfinished") for choice in sorted(self._completion)]

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from arrival to the first token, None before it."""
        return self._timer.time_to_first_token

    @property
    def stages(self) -> tuple[float | None, float | None, float | None, float | None]:
        """When the engine queued the first completion, planned it, and gave the first token and the last of all."""
        return self._queued, self._scheduled, *self._timer.span

    def note(self, at: int, output: RequestOutput, now: float) -> int:
        """Count one output of prompt number `at`; returns the number of its choice in the reply."""
        choice = at * self._n + output.index
        self._timer.output(choice, len(output.token_ids), now)
        self._prompt[at] = output.prompt_tokens
        if output.cached_tokens > self._cached.get(at, 0):
            self._cached[at] = output.cached_tokens
        if not self._completion:
            self._queued, self._scheduled = output.queued_at, output.scheduled_at
        self._completion[choice] = output.completion_tokens
        if output.finish_reason is not None:
            self._ends[choice] = output.finish_reason
            if self._record is not None:
                self._record.completed(output.completion_tokens)
            self._timer.finish(
                choice,
                output.finish_reason,
                output.prompt_tokens,
                now,
                queued_at=output.queued_at,
                scheduled_at=output.scheduled_at,
            )
        return choice

    def usage(self) -> Usage:
        """Tokens so far; a prompt counts once, however many completions it has."""
        prompt = sum(self._prompt.values())
        completion = sum(self._completion.values())
        cached = sum(self._cached.values())
        return Usage(prompt, completion, prompt + completion, PromptTokensDetails(cached))


class Gathered:
    """One whole completion in the making."""

    __slots__ = ("finish_reason", "logprobs", "stop_reason", "texts", "token_ids")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.token_ids: list[int] = []
        self.logprobs: list[TokenLogprobs] = []
        self.finish_reason: str | None = None
        self.stop_reason: str | int | None = None

    def add(self, output: RequestOutput) -> None:
        """Append one output."""
        self.texts.append(output.text)
        self.token_ids += output.token_ids
        if output.logprobs:
            self.logprobs.extend(output.logprobs)
        if output.finish_reason is not None:
            self.finish_reason = output.finish_reason
            self.stop_reason = output.stop_reason


def gather(batch: Batch, tally: Tally, into: dict[int, Gathered]) -> None:
    """Add a batch to the completions it belongs to."""
    check_batch(batch)
    now = time.perf_counter()
    for at, output in batch:
        choice = tally.note(at, output, now)
        gathered = into.get(choice)
        if gathered is None:
            gathered = into[choice] = Gathered()
        gathered.add(output)
