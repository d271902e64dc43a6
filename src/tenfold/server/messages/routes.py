"""POST /v1/messages and /v1/messages/count_tokens."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenfold.core.errors import InvalidRequestError
from tenfold.observe.metrics import RequestTimer
from tenfold.server.decoding import decode
from tenfold.server.generation import Job, make_job, run
from tenfold.server.messages.conversion import chat_messages, choice_of, continues, tools_of
from tenfold.server.messages.errors import COUNT_PATH, PATH, error_response
from tenfold.server.messages.protocol import CountRequest, MessagesRequest
from tenfold.server.messages.replies import TokenCount
from tenfold.server.messages.writer import DIALECT, MessageWriter
from tenfold.server.prompts import check_room
from tenfold.server.protocol import GenerationRequest
from tenfold.server.sampling import sampling_params
from tenfold.server.service import Service, json_response
from tenfold.server.structured import compiled_calls
from tenfold.server.tools import Tooling, tooling

_decoder = msgspec.json.Decoder(MessagesRequest)
_count_decoder = msgspec.json.Decoder(CountRequest)


def routes(service: Service) -> list[Route]:
    """The two routes."""

    async def create(http: Request) -> Response:
        timer = service.metrics.begin()
        job, writer = await service.prepare(lambda body: open_job(service, body, timer), http, template=True)
        return await run(service, http, job, writer, DIALECT)

    async def count(http: Request) -> Response:
        def read(body: bytes) -> TokenCount:
            request = decode(_count_decoder, body)
            service.check_model(request.model)
            prompt, _ = _prompt(service, request, unlimited=True)
            return TokenCount(len(prompt))

        return json_response(await service.prepare(read, http, template=True, unlimited=True))

    return [
        Route(PATH, service.endpoint(create, shape=error_response), methods=["POST"]),
        Route(COUNT_PATH, service.endpoint(count, shape=error_response), methods=["POST"]),
    ]


def open_job(service: Service, body: bytes, timer: RequestTimer) -> tuple[Job, MessageWriter]:
    """A body as a job and the writer of its reply; safe in a thread."""
    request = decode(_decoder, body)
    model = service.check_model(request.model)
    engine = service.engine
    common = GenerationRequest(
        stream=request.stream,
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        stop=request.stop_sequences,
    )
    prompt, tools = _prompt(service, request)
    check_room(len(prompt), request.max_tokens, engine.max_model_len, "messages")
    sampling = sampling_params(
        common,
        defaults=engine.generation_defaults,
        max_tokens=request.max_tokens,
        logprobs=None,
        vocab_size=engine.vocab_size,
        structured=compiled_calls(engine, tools),
    )
    new_parser, sampling = service.parsing.parser(prompt, tools, sampling)
    job = make_job(common, prefix="msg", model=model, prompts=[prompt], sampling=sampling)
    return job, MessageWriter(job, timer, new_parser)


def _prompt(
    service: Service, request: CountRequest, *, unlimited: bool = False
) -> tuple[tuple[int, ...], Tooling]:
    """The request's prompt, and what its reply may call."""
    offered = tools_of(request)
    choice = request.tool_choice
    one_call = choice is not None and bool(choice.disable_parallel_tool_use)
    tools = tooling(offered, choice_of(request), parallel=not one_call)
    service.parsing.check_template(tools)
    prompt = service.prompts.from_messages(
        chat_messages(request),
        tools=offered if tools.schemas else None,
        continue_final_message=continues(request),
        template_kwargs=_thinking(service, request),
        unlimited=unlimited,
    )
    return prompt, tools


def _thinking(service: Service, request: CountRequest) -> dict[str, Any]:
    """What templates of models that can be told call it. Raises InvalidRequestError when the model never thinks."""
    if request.thinking is None:
        return {}
    thinks = request.thinking.type != "disabled"
    if thinks and service.parsing.reasoning is None:
        raise InvalidRequestError(
            "This model does not think before it answers; leave thinking out.", param="thinking"
        )
    return {"enable_thinking": thinks}
