"""POST /v1/completions."""

from __future__ import annotations

import time
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenfold.core.errors import InvalidRequestError
from tenfold.core.request import RequestOutput, TokenLogprobs
from tenfold.core.sampling_params import MAX_N
from tenfold.observe.metrics import RequestTimer
from tenfold.server.decoding import decode
from tenfold.server.fanin import Batch
from tenfold.server.generation import Gathered, Job, Tally, check_batch, gather, make_job, run
from tenfold.server.logprobs import TokenTexts, completion_logprobs
from tenfold.server.prompts import check_room
from tenfold.server.protocol import CompletionRequest
from tenfold.server.replies import CompletionChoice, CompletionLogprobs, CompletionReply, Usage
from tenfold.server.sampling import check_common, sampling_params
from tenfold.server.service import Service
from tenfold.server.sse import Template, event
from tenfold.server.structured import compiled_output, may_name_one

PATH = "/v1/completions"
# The older API's own default.
DEFAULT_MAX_TOKENS = 16

_decoder = msgspec.json.Decoder(CompletionRequest)
_encoder = msgspec.json.Encoder()


def routes(service: Service) -> list[Route]:
    """The completions route."""

    async def create(http: Request) -> Response:
        timer = service.metrics.begin()
        job, writer = await service.prepare(
            lambda body: open_job(service, body, timer), http, slow=may_name_one
        )
        return await run(service, http, job, writer)

    return [Route(PATH, service.endpoint(create), methods=["POST"])]


def open_job(service: Service, body: bytes, timer: RequestTimer) -> tuple[Job, CompletionWriter]:
    """A body as a job and the writer of its reply; safe in a thread."""
    job, echoes = read_job(service, body)
    return job, CompletionWriter(job, echoes, timer, service.token_texts)


def read_job(service: Service, body: bytes) -> tuple[Job, list[str]]:
    """Check a body; returns the job and the texts to put before each prompt's output. Safe in a thread."""
    request = decode(_decoder, body)
    model = service.check_model(request.model)
    _check(request)
    engine = service.engine
    max_tokens = DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens
    sampling = sampling_params(
        request,
        defaults=engine.generation_defaults,
        max_tokens=max_tokens,
        logprobs=request.logprobs,
        vocab_size=engine.vocab_size,
        structured=compiled_output(engine, request),
    )
    limit = service.settings.max_prompts
    sources = _split(request.prompt, limit)
    if len(sources) * sampling.n > max(limit, MAX_N):
        raise InvalidRequestError(
            f"{len(sources)} prompts with n {sampling.n} make {len(sources) * sampling.n} completions; "
            f"the limit is {max(limit, MAX_N)}.",
            param="n",
        )
    prompts: list[tuple[int, ...]] = []
    echoes: list[str] = []
    add_special = request.add_special_tokens is not False
    for param, source in sources:
        if isinstance(source, str):
            ids = service.prompts.from_text(source, param=param, add_special=add_special)
        else:
            ids = service.prompts.from_ids(source, param=param)
        check_room(len(ids), max_tokens, engine.max_model_len, param)
        prompts.append(ids)
        if request.echo:
            echoes.append(source if isinstance(source, str) else engine.tokenizer.decode(source))
        else:
            echoes.append("")
    return make_job(request, prefix="cmpl", model=model, prompts=prompts, sampling=sampling), echoes


def _split(prompt: str | list[str | int | list[int]], limit: int) -> list[tuple[str, str | list[int]]]:
    """(field path, text or ids) of each prompt: a text, texts, ids, or lists of ids."""
    if isinstance(prompt, str):
        return [("prompt", prompt)]
    if not prompt:
        raise InvalidRequestError("prompt is empty; give a text or token ids.", param="prompt")
    kind = type(prompt[0])
    for number, item in enumerate(prompt):
        if type(item) is not kind:
            raise InvalidRequestError(
                f"prompt[{number}] differs in type from prompt[0]; give texts, token ids or lists of ids.",
                param=f"prompt[{number}]",
            )
    if kind is int:
        return [("prompt", [item for item in prompt if isinstance(item, int)])]
    if len(prompt) > limit:
        raise InvalidRequestError(f"prompt has {len(prompt)} prompts; the limit is {limit}.", param="prompt")
    return [(f"prompt[{number}]", item) for number, item in enumerate(prompt) if not isinstance(item, int)]


def _check(request: CompletionRequest) -> None:
    check_common(request)
    if request.suffix:
        raise InvalidRequestError("suffix is not supported; leave it out.", param="suffix")
    if request.best_of is not None and request.best_of != (request.n or 1):
        raise InvalidRequestError(
            "best_of must equal n; choosing among more is not supported.", param="best_of"
        )
    if request.echo and request.logprobs is not None:
        raise InvalidRequestError(
            "echo with logprobs wants the prompt's log probabilities, which is not supported yet; drop one.",
            param="echo",
        )


class CompletionWriter:
    """Shapes outputs into a completion's reply, streamed or whole.

    Args:
        job: the request.
        echoes: the text before each prompt's output.
        timer: fed with every output.
        texts: token texts, for log probabilities.
    """

    def __init__(self, job: Job, echoes: list[str], timer: RequestTimer, texts: TokenTexts) -> None:
        self._job = job
        self._echoes = echoes
        self._texts = texts
        self._tally = Tally(timer, job.sampling.n)
        self._created = int(time.time())
        self._templates: dict[int, Template] = {}  # of each choice that has begun
        self._offsets: dict[int, int] = {}
        self._gathered: dict[int, Gathered] = {}

    def chunks(self, batch: Batch) -> bytes:
        """The batch as complete events."""
        check_batch(batch)
        now = time.perf_counter()
        parts: list[bytes] = []
        for at, output in batch:
            choice = self._tally.note(at, output, now)
            text = output.text
            template = self._templates.get(choice)
            if template is None:
                template = self._templates[choice] = Template(partial(self._text_chunk, choice))
                text = self._echoes[at] + text
            if output.finish_reason is None and not output.logprobs and not self._job.usage_always:
                if text:
                    parts.append(template.fill(text))
            elif text or output.logprobs or output.finish_reason is not None:
                parts.append(event(self._chunk([self._piece(choice, text, output)], self._usage_so_far())))
        return b"".join(parts)

    def end(self) -> bytes:
        """The usage chunk, if asked for."""
        return event(self._chunk([], self._tally.usage())) if self._job.usage_at_end else b""

    def add(self, batch: Batch) -> None:
        """Gather a batch for `whole`."""
        gather(batch, self._tally, self._gathered)

    def whole(self) -> CompletionReply:
        """The reply's body."""
        choices = [
            CompletionChoice(
                index=choice,
                text=self._echoes[choice // self._job.sampling.n] + "".join(done.texts),
                logprobs=None
                if self._job.sampling.logprobs is None
                else self._logprobs(choice, done.logprobs),
                finish_reason=done.finish_reason,
                stop_reason=done.stop_reason,
            )
            for choice, done in sorted(self._gathered.items())
        ]
        job = self._job
        return CompletionReply(
            job.id, "text_completion", self._created, job.model, choices, self._tally.usage()
        )

    def _piece(self, choice: int, text: str, output: RequestOutput) -> CompletionChoice:
        logprobs = self._logprobs(choice, output.logprobs) if output.logprobs else None
        if output.finish_reason is None:
            return CompletionChoice(choice, text, logprobs, None)
        return CompletionChoice(choice, text, logprobs, output.finish_reason, output.stop_reason)

    def _logprobs(
        self, choice: int, entries: tuple[TokenLogprobs, ...] | list[TokenLogprobs]
    ) -> CompletionLogprobs:
        shaped, self._offsets[choice] = completion_logprobs(
            entries, self._texts, self._offsets.get(choice, 0)
        )
        return shaped

    def _text_chunk(self, choice: int, text: str) -> bytes:
        return self._chunk([CompletionChoice(choice, text, None, None)], self._usage_so_far())

    def _usage_so_far(self) -> Usage | msgspec.UnsetType | None:
        if self._job.usage_always:
            return self._tally.usage()
        return None if self._job.usage_at_end else msgspec.UNSET

    def _chunk(self, choices: list[CompletionChoice], usage: Usage | msgspec.UnsetType | None) -> bytes:
        job = self._job
        reply = CompletionReply(job.id, "text_completion", self._created, job.model, choices, usage)
        return _encoder.encode(reply)
