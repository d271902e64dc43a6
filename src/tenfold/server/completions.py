"""POST /v1/completions."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenfold.core.errors import InvalidRequestError
from tenfold.core.sampling_params import MAX_N
from tenfold.observe.metrics import RequestTimer
from tenfold.server.completion_writer import CompletionForm, CompletionWriter
from tenfold.server.decoding import decode
from tenfold.server.generation import Job, make_job, run
from tenfold.server.logprobs import Echo, echo_in_tokens
from tenfold.server.prompts import check_room
from tenfold.server.protocol import CompletionRequest
from tenfold.server.sampling import check_common, sampling_params
from tenfold.server.service import Service
from tenfold.server.structured import compiled_output, may_name_one

PATH = "/v1/completions"
# The older API's own default.
DEFAULT_MAX_TOKENS = 16
# Tokens of prompts times probabilities for each, in one request: a reply holds them all, some 100 bytes each.
MAX_SCORES = 1 << 20

_decoder = msgspec.json.Decoder(CompletionRequest)


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
    job, form = read_job(service, body)
    return job, CompletionWriter(job, form, timer, service.token_texts)


def read_job(service: Service, body: bytes) -> tuple[Job, CompletionForm]:
    """Check a body; returns the job and what its replies hold. Safe in a thread."""
    request = decode(_decoder, body)
    model = service.check_model(request.model)
    _check(request)
    engine = service.engine
    max_tokens = DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens
    # To choose the likeliest among more takes their log probabilities, whether or not the client wants to see them.
    chooses = request.best_of is not None and request.best_of > (request.n or 1)
    sampling = sampling_params(
        request,
        defaults=engine.generation_defaults,
        max_tokens=max_tokens,
        logprobs=0 if chooses and request.logprobs is None else request.logprobs,
        prompt_logprobs=_most(request.prompt_logprobs, request.logprobs if request.echo else None),
        vocab_size=engine.vocab_size,
        structured=compiled_output(engine, request),
        least_tokens=0,
    )
    keep = sampling.n
    if chooses:
        sampling = msgspec.structs.replace(sampling, n=request.best_of)
    limit = service.settings.max_prompts
    sources = _split(request.prompt, limit)
    if len(sources) * sampling.n > max(limit, MAX_N):
        name = "best_of" if chooses else "n"
        raise InvalidRequestError(
            f"{len(sources)} prompts with {name} {sampling.n} make {len(sources) * sampling.n} completions; "
            f"the limit is {max(limit, MAX_N)}.",
            param=name,
        )
    prompts: list[tuple[int, ...]] = []
    echoes: list[Echo] = []
    add_special = request.add_special_tokens is not False
    for param, source in sources:
        if isinstance(source, str):
            ids = service.prompts.from_text(source, param=param, add_special=add_special)
        else:
            ids = service.prompts.from_ids(source, param=param)
        check_room(len(ids), max_tokens, engine.max_model_len, param)
        prompts.append(ids)
        if request.echo:
            scored = request.logprobs is not None
            echoes.append(_echo(service, source, ids, scored=scored, add_special=add_special))
    if sampling.prompt_logprobs is not None:
        scores = sum(map(len, prompts)) * (sampling.prompt_logprobs + 1)
        if scores > MAX_SCORES:
            raise InvalidRequestError(
                f"The prompts have {scores} log probabilities; the limit is {MAX_SCORES}. Send fewer at once.",
                param="prompt",
            )
    form = CompletionForm(
        echoes=echoes,
        logprobs=request.logprobs,
        prompt_logprobs=request.prompt_logprobs,
        keep=keep,
    )
    job = make_job(request, prefix="cmpl", model=model, prompts=prompts, sampling=sampling)
    return job, form


def _most(*counts: int | None) -> int | None:
    """The largest of the counts that were given."""
    return max((count for count in counts if count is not None), default=None)


def _echo(
    service: Service, source: str | list[int], ids: tuple[int, ...], *, scored: bool, add_special: bool
) -> Echo:
    """What to repeat of a prompt: the text, and with log probabilities its tokens."""
    tokenizer = service.engine.tokenizer
    if scored:
        is_text = isinstance(source, str)
        begun = is_text and add_special and tokenizer.add_bos
        # In a text, the names of special tokens are what the client wrote.
        return echo_in_tokens(ids, service.token_texts, begun=begun, skip_special=not is_text)
    return Echo(source if isinstance(source, str) else tokenizer.decode(source))


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
    best_of, n = request.best_of, request.n or 1
    if best_of is None:
        return
    if not n <= best_of <= MAX_N:
        raise InvalidRequestError(
            f"best_of is {str(best_of)[:40]}; it must be at least n, {n}, and at most {MAX_N}.",
            param="best_of",
        )
    if best_of > n and request.stream:
        raise InvalidRequestError(
            "best_of above n chooses among whole completions, which cannot be streamed; drop one.",
            param="best_of",
        )
