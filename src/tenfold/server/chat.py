"""POST /v1/chat/completions."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenfold.core.errors import InvalidRequestError
from tenfold.observe.metrics import RequestTimer
from tenfold.server.chat_writer import ChatWriter
from tenfold.server.decoding import decode
from tenfold.server.generation import Job, make_job, run
from tenfold.server.parsed_chat import ParsedChatWriter
from tenfold.server.parsing import NewParser
from tenfold.server.prompts import check_room
from tenfold.server.protocol import ChatRequest
from tenfold.server.sampling import check_common, check_top_logprobs, sampling_params
from tenfold.server.service import Service
from tenfold.server.structured import compiled_calls, compiled_output
from tenfold.server.tools import tooling

PATH = "/v1/chat/completions"

_decoder = msgspec.json.Decoder(ChatRequest)


def routes(service: Service) -> list[Route]:
    """The chat route."""

    async def create(http: Request) -> Response:
        timer = service.metrics.begin()
        job, writer = await service.prepare(lambda body: open_job(service, body, timer), http, template=True)
        return await run(service, http, job, writer)

    return [Route(PATH, service.endpoint(create), methods=["POST"])]


def open_job(service: Service, body: bytes, timer: RequestTimer) -> tuple[Job, ChatWriter]:
    """A body as a job and the writer of its reply; safe in a thread."""
    job, new_parser = read_job(service, body)
    if new_parser is None:
        return job, ChatWriter(job, timer, service.token_texts)
    return job, ParsedChatWriter(job, timer, service.token_texts, new_parser)


def read_job(service: Service, body: bytes) -> tuple[Job, NewParser | None]:
    """Check a body; returns its job, and what makes parsers of its replies if they need any."""
    request = decode(_decoder, body)
    model = service.check_model(request.model)
    _check(request)
    engine = service.engine
    parallel = request.parallel_tool_calls is not False
    tools = tooling(request.tools, request.tool_choice, parallel=parallel)
    service.parsing.check_template(tools)
    max_tokens = (
        request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens
    )
    logprobs = (request.top_logprobs or 0) if request.logprobs else None
    sampling = sampling_params(
        request,
        defaults=engine.generation_defaults,
        max_tokens=max_tokens,
        logprobs=logprobs,
        prompt_logprobs=request.prompt_logprobs,
        vocab_size=engine.vocab_size,
        structured=compiled_calls(engine, tools) or compiled_output(engine, request),
    )
    prompt = service.prompts.from_messages(
        request.messages,
        tools=request.tools if tools.schemas else None,
        add_generation_prompt=request.add_generation_prompt is not False,
        continue_final_message=bool(request.continue_final_message),
        template_kwargs=request.chat_template_kwargs,
    )
    check_room(len(prompt), max_tokens, engine.max_model_len, "messages")
    new_parser, sampling = service.parsing.parser(prompt, tools, sampling)
    job = make_job(request, prefix="chatcmpl", model=model, prompts=[prompt], sampling=sampling)
    return job, new_parser


def _check(request: ChatRequest) -> None:
    check_common(request)
    if request.max_completion_tokens is not None and request.max_completion_tokens < 1:
        raise InvalidRequestError(
            "max_completion_tokens must be at least 1; leave it out to use all the room there is.",
            param="max_completion_tokens",
        )
    check_top_logprobs(request.top_logprobs)
    if request.top_logprobs and not request.logprobs:
        raise InvalidRequestError("top_logprobs needs logprobs to be true; set it.", param="top_logprobs")
    if any(modality != "text" for modality in request.modalities or ()):
        raise InvalidRequestError("modalities can only be text yet; leave it out.", param="modalities")
    if request.chat_template is not None:
        raise InvalidRequestError(
            "chat_template cannot be given in a request; the model's own is used.", param="chat_template"
        )
