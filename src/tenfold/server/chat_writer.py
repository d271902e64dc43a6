"""A chat's reply."""

from __future__ import annotations

import time
from functools import partial

import msgspec

from tenfold.core.request import RequestOutput
from tenfold.observe.metrics import RequestTimer
from tenfold.server.fanin import Batch
from tenfold.server.generation import Gathered, Job, Tally, check_batch, gather
from tenfold.server.logprobs import TokenTexts, chat_logprobs, prompt_logprobs
from tenfold.server.replies import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatMessage,
    ChatReply,
    Delta,
    PromptLogprobs,
)
from tenfold.server.sse import Template, event

_encoder = msgspec.json.Encoder()
_ROLE = Delta(role="assistant", content="")
NOTHING = Delta()


class ChatWriter:
    """Shapes outputs into a chat's reply, streamed or whole: all text is content.

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
        self._scores: PromptLogprobs | msgspec.UnsetType = msgspec.UNSET
        # Such outputs do not fit the template of those with content alone.
        self._rich = job.usage_always or job.token_ids

    def chunks(self, batch: Batch) -> bytes:
        """The batch as complete events."""
        check_batch(batch)
        now = time.perf_counter()
        parts: list[bytes] = []
        for at, output in batch:
            choice = self._tally.note(at, output, now)
            template = self._templates.get(choice)
            if template is None:
                template = self._greet(choice, parts)
            if output.finish_reason is None and not output.logprobs and not self._rich:
                if output.text:
                    parts.append(template.fill(output.text))
            elif output.text or output.logprobs or self._job.token_ids or output.finish_reason is not None:
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
        most = self._job.sampling.prompt_logprobs
        for _, output in batch:
            if most is not None and output.prompt_logprobs is not None:
                self._scores = prompt_logprobs(output.prompt_logprobs, self._texts, most)

    def whole(self) -> ChatReply:
        """The reply's body."""
        wants_logprobs = self._job.sampling.logprobs is not None
        choices = []
        for choice, done in sorted(self._gathered.items()):
            message, finish_reason = self._message(done)
            logprobs = chat_logprobs(done.logprobs, self._texts) if wants_logprobs else None
            ids = done.token_ids if self._job.token_ids else msgspec.UNSET
            choices.append(ChatChoice(choice, message, logprobs, finish_reason, done.stop_reason, ids))
        job = self._job
        return ChatReply(
            id=job.id,
            created=self._created,
            model=job.model,
            choices=choices,
            usage=self._tally.usage(),
            prompt_logprobs=self._scores,
            prompt_token_ids=job.prompts[0] if job.token_ids else msgspec.UNSET,
        )

    def _message(self, done: Gathered) -> tuple[ChatMessage, str | None]:
        """A completion's message and finish reason."""
        return ChatMessage("assistant", "".join(done.texts)), done.finish_reason

    def _greet(self, choice: int, parts: list[bytes]) -> Template:
        """Add a choice's first chunk; returns the template of those with content."""
        parts.append(event(self._chunk(ChatChunkChoice(choice, _ROLE, None, None), begins=True)))
        template = self._templates[choice] = Template(partial(self._text_chunk, choice))
        return template

    def _piece(self, choice: int, output: RequestOutput) -> ChatChunkChoice:
        delta = Delta(content=output.text) if output.text else NOTHING
        logprobs = chat_logprobs(output.logprobs, self._texts) if output.logprobs else None
        ids = self._ids(output)
        if output.finish_reason is None:
            return ChatChunkChoice(choice, delta, logprobs, None, token_ids=ids)
        return ChatChunkChoice(choice, delta, logprobs, output.finish_reason, output.stop_reason, ids)

    def _ids(self, output: RequestOutput) -> tuple[int, ...] | msgspec.UnsetType:
        return output.token_ids if self._job.token_ids else msgspec.UNSET

    def _text_chunk(self, choice: int, text: str) -> bytes:
        return self._chunk(ChatChunkChoice(choice, Delta(content=text), None, None))

    def _chunk(self, choice: ChatChunkChoice, *, begins: bool = False) -> bytes:
        job = self._job
        usage = self._tally.usage() if job.usage_always else (None if job.usage_at_end else msgspec.UNSET)
        ids = job.prompts[0] if begins and job.token_ids else msgspec.UNSET
        chunk = ChatChunk(job.id, "chat.completion.chunk", self._created, job.model, [choice], usage, ids)
        return _encoder.encode(chunk)
