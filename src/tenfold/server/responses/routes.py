"""The routes under /v1/responses."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenfold.core.errors import InvalidRequestError
from tenfold.core.structured_output import StructuredOutput
from tenfold.server.decoding import decode
from tenfold.server.errors import ApiError
from tenfold.server.generation import Job, make_job, run
from tenfold.server.parsing import NewParser
from tenfold.server.prompts import check_room
from tenfold.server.protocol import Message
from tenfold.server.responses.background import Background
from tenfold.server.responses.request import (
    Item,
    ResponsesRequest,
    TextFormat,
    chat_choice,
    chat_tools,
    check,
    items_of,
    messages_of,
    wants_logprobs,
)
from tenfold.server.responses.store import ResponseStore
from tenfold.server.responses.writer import ResponseWriter
from tenfold.server.sampling import check_common, check_top_logprobs, sampling_params
from tenfold.server.service import Service, json_response
from tenfold.server.structured import compiled_calls, compiled_output
from tenfold.server.tools import tooling

_decoder = msgspec.json.Decoder(ResponsesRequest)


class Prepared(msgspec.Struct, frozen=True):
    """A request that passed every check.

    Args:
        job: what to compute.
        skeleton: the response's body without output, status and usage.
        input: the request's own items.
        previous: the response it goes on from.
        store: whether it is kept.
        background: whether nobody waits for it.
        new_parser: makes what takes the reply apart; None when it is text and nothing else.
    """

    job: Job
    skeleton: Item
    input: list[Item]
    previous: str | None
    store: bool
    background: bool
    new_parser: NewParser | None


def routes(service: Service, store: ResponseStore) -> list[Route]:
    """Create, get, delete, cancel, input items, and counting an input's tokens."""
    background: list[Background] = []  # made with the first request, when an event loop runs

    async def create(http: Request) -> Response:
        timer = service.metrics.begin()
        ready = await service.prepare(lambda body: read(service, store, body), http, template=True)

        def keep(body: Item) -> None:
            if ready.store:
                store.put(body, ready.previous, ready.input)

        parser = ready.new_parser() if ready.new_parser is not None else None
        writer = ResponseWriter(ready.job, ready.skeleton, timer, service.token_texts, keep, parser)
        if not ready.background:
            return await run(service, http, ready.job, writer)
        return json_response(runner().start(ready.job, writer, keep))

    def runner() -> Background:
        if not background:
            background.append(Background(service, store))
        return background[0]

    async def get(http: Request) -> Response:
        if http.query_params.get("stream") in ("true", "1"):
            raise InvalidRequestError("A kept response cannot be streamed; leave stream out.", param="stream")
        return json_response((await _kept(http)).response)

    async def delete(http: Request) -> Response:
        found = http.path_params["id"]
        await runner().cancel(found)
        if not await asyncio.to_thread(store.delete, found):
            raise _missing(found)
        return json_response({"id": found, "object": "response", "deleted": True})

    async def cancel(http: Request) -> Response:
        kept = await _kept(http)
        _check_background(kept.response)
        await runner().cancel(kept.response["id"])
        return json_response((await _kept(http)).response)

    async def inputs(http: Request) -> Response:
        items = (await _kept(http)).input
        return json_response({"object": "list", "data": items, "has_more": False, **_ends(items)})

    async def count(http: Request) -> Response:
        ready = await service.prepare(lambda body: read(service, store, body), http, template=True)
        return json_response({"object": "response.input_tokens", "input_tokens": len(ready.job.prompts[0])})

    async def _kept(http: Request) -> Any:
        runner()  # what a server before this one left unfinished is marked
        return await _stored(store, http.path_params["id"])

    path = "/v1/responses"
    return [
        Route(path, service.endpoint(create), methods=["POST"]),
        Route(f"{path}/input_tokens", service.endpoint(count), methods=["POST"]),
        Route(f"{path}/{{id}}", service.endpoint(get), methods=["GET"]),
        Route(f"{path}/{{id}}", service.endpoint(delete), methods=["DELETE"]),
        Route(f"{path}/{{id}}/cancel", service.endpoint(cancel), methods=["POST"]),
        Route(f"{path}/{{id}}/input_items", service.endpoint(inputs), methods=["GET"]),
    ]


def read(service: Service, store: ResponseStore, body: bytes) -> Prepared:
    """Check a body and turn it into work; safe in a thread."""
    request = decode(_decoder, body)
    model = service.check_model(request.model)
    check_common(request)
    check(request)
    check_top_logprobs(request.top_logprobs)
    engine = service.engine
    offered = chat_tools(request.tools or [])
    parallel = request.parallel_tool_calls is not False
    tools = tooling(offered, chat_choice(request.tool_choice), parallel=parallel)
    service.parsing.check_template(tools)
    sampling = sampling_params(
        request,
        defaults=engine.generation_defaults,
        max_tokens=request.max_output_tokens,
        logprobs=(request.top_logprobs or 0) if wants_logprobs(request) else None,
        vocab_size=engine.vocab_size,
        structured=compiled_calls(engine, tools) or _structured(service, request),
    )
    assert request.input is not None  # check() saw to it
    items = items_of(request.input)
    before = store.history(request.previous_response_id) if request.previous_response_id else []
    messages = [*messages_of(before, "previous"), *messages_of(items, "input")]
    if request.instructions:
        messages.insert(0, Message(role="system", content=request.instructions))
    try:
        prompt = service.prompts.from_messages(messages, tools=offered if tools.schemas else None)
    except InvalidRequestError as error:
        param = "input" if (error.param or "").startswith("messages") else error.param
        raise InvalidRequestError(str(error), param=param, code=error.code) from None
    check_room(len(prompt), request.max_output_tokens, engine.max_model_len, "input")
    new_parser, sampling = service.parsing.parser(prompt, tools, sampling)
    job = make_job(request, prefix="resp", model=model, prompts=[prompt], sampling=sampling)
    job = msgspec.structs.replace(job, id=job.id.replace("-", "_"))
    return Prepared(
        job,
        _skeleton(request, job),
        items,
        request.previous_response_id,
        request.store is not False,
        bool(request.background),
        new_parser,
    )


def _format(request: ResponsesRequest) -> TextFormat:
    return (request.text.format if request.text is not None else None) or TextFormat()


def _structured(service: Service, request: ResponsesRequest) -> StructuredOutput | None:
    request.response_format = _format(request).chat()
    try:
        return compiled_output(service.engine, request)
    except InvalidRequestError as error:
        param, sentence = error.param or "", str(error)
        for chats, ours in (
            ("response_format.json_schema.schema", "text.format.schema"),
            ("response_format", "text.format"),
        ):
            param, sentence = param.replace(chats, ours), sentence.replace(chats, ours)
        raise InvalidRequestError(sentence, param=param, code=error.code) from None


def _skeleton(request: ResponsesRequest, job: Job) -> Item:
    sampling = job.sampling
    return {
        "id": job.id,
        "object": "response",
        "created_at": int(time.time()),
        "model": job.model,
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "metadata": request.metadata or {},
        "background": bool(request.background),
        "max_output_tokens": request.max_output_tokens,
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "previous_response_id": request.previous_response_id,
        "reasoning": request.reasoning,
        "store": request.store is not False,
        "temperature": sampling.temperature,
        "text": {"format": _format(request).shown()},
        "tool_choice": request.tool_choice or "auto",
        "tools": request.tools or [],
        "top_logprobs": request.top_logprobs or 0,
        "top_p": sampling.top_p,
        "truncation": "disabled",
        "service_tier": request.service_tier or "default",
        "safety_identifier": request.safety_identifier,
        "prompt_cache_key": request.prompt_cache_key,
        "user": request.user,
    }


def _ends(items: list[Item]) -> dict[str, str | None]:
    return {
        "first_id": items[0].get("id") if items else None,
        "last_id": items[-1].get("id") if items else None,
    }


async def _stored(store: ResponseStore, response_id: str) -> Any:
    kept = await asyncio.to_thread(store.get, response_id)
    if kept is None:
        raise _missing(response_id)
    return kept


def _check_background(response: Item) -> None:
    if not response.get("background"):
        raise InvalidRequestError(
            "Only background responses can be cancelled; close the connection of others.", param="id"
        )


def _missing(response_id: str) -> ApiError:
    return ApiError(
        404, f"Response with id '{response_id[:100]}' not found; it was not stored, or is gone.", param="id"
    )
