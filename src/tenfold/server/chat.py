"""POST /v1/chat/completions."""

from __future__ import annotations

import time
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenfold.core.errors import InvalidRequestError
from tenfold.core.request import RequestOutput
from tenfold.core.sampling_params import MAX_LOGPROBS
from tenfold.observe.metrics import RequestTimer
from tenfold.server.decoding import decode
from tenfold.server.fanin import Batch
from tenfold.server.generation import Gathered, Job, Tally, check_batch, gather, make_job, run
from tenfold.server.logprobs import TokenTexts, chat_logprobs
from tenfold.server.prompts import check_room
from tenfold.server.protocol import ChatRequest
from tenfold.server.replies import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatMessage,
    ChatReply,
    Delta,
)
from tenfold.server.sampling import check_common, sampling_params
from tenfold.server.service import Service
from tenfold.server.sse import Template, event

_decoder = msgspec.json.Decoder(ChatRequest)
_encoder = msgspec.json.Encoder()
_ROLE = Delta(role="assistant", content="")
_NOTHING = Delta()


def routes(service: Service) -> list[Route]:
    """The chat route."""

    async def create(http: Request) -> Response:
        timer = service.metrics.begin()
        job = await service.prepare(lambda body: read_job(service, body), http, template=True)
        return await run(service, http, job, ChatWriter(job, timer, service.token_texts))

    return [Route("/v1/chat/completions", service.endpoint(create), methods=["POST"])]


def read_job(service: Service, body: bytes) -> Job:
    """Check a body and turn it into a job; safe in a thread."""
    request = decode(_decoder, body)
    model = service.check_model(request.model)
    _check(request)
    engine = service.engine
    max_tokens = (
        request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens
    )
    logprobs = (request.top_logprobs or 0) if request.logprobs else None
    sampling = sampling_params(
        request,
        defaults=engine.generation_defaults,
        max_tokens=max_tokens,
        logprobs=logprobs,
        vocab_size=engine.vocab_size,
    )
    prompt = service.prompts.from_messages(
        request.messages,
        tools=None if request.tool_choice == "none" else request.tools,
        add_generation_prompt=request.add_generation_prompt is not False,
        continue_final_message=bool(request.continue_final_message),
        template_kwargs=request.chat_template_kwargs,
    )
    check_room(len(prompt), max_tokens, engine.max_model_len, "messages")
    return make_job(request, prefix="chatcmpl", model=model, prompts=[prompt], sampling=sampling)


def _check(request: ChatRequest) -> None:
    check_common(request)
    if request.max_completion_tokens is not None and request.max_completion_tokens < 1:
        raise InvalidRequestError(
            "max_completion_tokens must be at least 1; leave it out to use all the room there is.",
            param="max_completion_tokens",
        )
    top = request.top_logprobs
    if top is not None and not 0 <= top <= MAX_LOGPROBS:
        raise InvalidRequestError(
            f"top_logprobs is {top}; it must be at least 0 and at most {MAX_LOGPROBS}.", param="top_logprobs"
        )
    if top and not request.logprobs:
        raise InvalidRequestError("top_logprobs needs logprobs to be true; set it.", param="top_logprobs")
    if request.tool_choice not in (None, "none", "auto"):
        raise InvalidRequestError(
            "tool_choice can be none or auto; making the model call a tool is not supported yet.",
            param="tool_choice",
        )
    if request.response_format is not None and request.response_format.type != "text":
        raise InvalidRequestError(
            f"response_format {request.response_format.type[:40]!r} is not supported yet; ask for text.",
            param="response_format.type",
        )
    if any(modality != "text" for modality in request.modalities or ()):
        raise InvalidRequestError("modalities can only be text yet; leave it out.", param="modalities")
    if request.chat_template is not None:
        raise InvalidRequestError(
            "chat_template cannot be given in a request; the model's own is used.", param="chat_template"
        )


class ChatWriter:
    """Shapes outputs into a chat's reply, streamed or whole.

    Args:
        job: the request.
        timer: fed with every output.
        texts: token texts, for log probabilities.
    """

    def __init__(self, job: Job, timer: RequestTimer, texts: TokenTexts) -> None:
        self._job = job
        self._texts = texts
        self._tally = Tally(timer, job.sampling.n)
        self._created = int(time.time())
        self._templates: dict[int, Template] = {}  # of each choice that was greeted
        self._gathered: dict[int, Gathered] = {}

    def chunks(self, batch: Batch) -> bytes:
        """The batch as complete events."""
        check_batch(batch)
        now = time.perf_counter()
        parts: list[bytes] = []
        for at, output in batch:
            choice = self._tally.note(at, output, now)
            template = self._templates.get(choice)
            if template is None:
                template = self._templates[choice] = Template(partial(self._text_chunk, choice))
                parts.append(event(self._chunk(ChatChunkChoice(choice, _ROLE, None, None))))
            if output.finish_reason is None and not output.logprobs and not self._job.usage_always:
                if output.text:
                    parts.append(template.fill(output.text))
            elif output.text or output.logprobs or output.finish_reason is not None:
                parts.append(event(self._chunk(self._piece(choice, output))))
        return b"".join(parts)

    def end(self) -> bytes:
        """The usage chunk, if asked for."""
        if not self._job.usage_at_end:
            return b""
        job = self._job
        chunk = ChatChunk(job.id, "chat.completion.chunk", self._created, job.model, [], self._tally.usage())
        return event(_encoder.encode(chunk))

    def add(self, batch: Batch) -> None:
        """Gather a batch for `whole`."""
        gather(batch, self._tally, self._gathered)

    def whole(self) -> ChatReply:
        """The reply's body."""
        wants_logprobs = self._job.sampling.logprobs is not None
        choices = [
            ChatChoice(
                index=choice,
                message=ChatMessage("assistant", "".join(done.texts)),
                logprobs=chat_logprobs(done.logprobs, self._texts) if wants_logprobs else None,
                finish_reason=done.finish_reason,
                stop_reason=done.stop_reason,
            )
            for choice, done in sorted(self._gathered.items())
        ]
        return ChatReply(
            id=self._job.id,
            created=self._created,
            model=self._job.model,
            choices=choices,
            usage=self._tally.usage(),
        )

    def _piece(self, choice: int, output: RequestOutput) -> ChatChunkChoice:
        delta = Delta(content=output.text) if output.text else _NOTHING
        logprobs = chat_logprobs(output.logprobs, self._texts) if output.logprobs else None
        if output.finish_reason is None:
            return ChatChunkChoice(choice, delta, logprobs, None)
        return ChatChunkChoice(choice, delta, logprobs, output.finish_reason, output.stop_reason)

    def _text_chunk(self, choice: int, text: str) -> bytes:
        return self._chunk(ChatChunkChoice(choice, Delta(content=text), None, None))

    def _chunk(self, choice: ChatChunkChoice) -> bytes:
        job = self._job
        usage = self._tally.usage() if job.usage_always else (None if job.usage_at_end else msgspec.UNSET)
        chunk = ChatChunk(job.id, "chat.completion.chunk", self._created, job.model, [choice], usage)
        return _encoder.encode(chunk)
