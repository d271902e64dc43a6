"""An engine without a model: deterministic text, honest counts, delays and failures on demand."""

from __future__ import annotations

import asyncio
import codecs
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tenfold.core.errors import EngineError, InvalidRequestError, OverloadedError
from tenfold.core.request import Request, RequestOutput, TokenLogprobs
from tenfold.core.stats import EngineStats
from tenfold.core.structured_output import StructuredOutput
from tenfold.text.chat_template import ChatTemplate

BOS = 256
_WORDS = {BOS: b"<s>", 257: b"</s>", 258: b"<|im_start|>", 259: b"<|im_end|>", 260: b"hello", 261: b" world"}
_SPECIAL = frozenset(range(256, 260))
VOCAB_SIZE = 262


class FakeTokenizer:
    """Bytes, four special tokens and two words."""

    vocab_size = VOCAB_SIZE
    add_bos = True
    bos_id = BOS
    eos_ids = (257,)
    space_prefix = False
    special_texts = tuple(_WORDS[token].decode() for token in sorted(_SPECIAL))

    def __init__(self) -> None:
        self.encoded_chars = 0

    def encode(
        self,
        text: str,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        max_tokens: int | None = None,
    ) -> list[int]:
        self.encoded_chars += len(text)
        data = text.encode()
        ids = [BOS] if add_special else []
        at = 0
        while at < len(data):
            for token, word in _WORDS.items():
                if data.startswith(word, at) and (parse_special or token not in _SPECIAL):
                    ids.append(token)
                    at += len(word)
                    break
            else:
                ids.append(data[at])
                at += 1
        if max_tokens is not None and len(ids) > max_tokens:
            raise InvalidRequestError(
                f"the text has more than {max_tokens} tokens.", code="context_length_exceeded"
            )
        return ids

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        kept = (token for token in ids if not (skip_special and token in _SPECIAL))
        return b"".join(_WORDS.get(token, b"") or bytes([token]) for token in kept).decode("utf-8", "replace")

    def token_bytes(self, token_id: int, *, skip_special: bool = False) -> bytes:
        if skip_special and token_id in _SPECIAL:
            return b""
        return _WORDS.get(token_id) or bytes([token_id])

    def is_special(self, token_id: int) -> bool:
        return token_id in _SPECIAL

    def token_text(self, token_id: int) -> str:
        return (_WORDS.get(token_id) or bytes([token_id])).decode("utf-8", "replace")


class FakeTemplate:
    """<|im_start|>role\\ncontent<|im_end|>; keeps what it was asked.

    Args:
        source: what the server takes the formats of tool calls and reasoning from.
        opening: ends the prompt, after the assistant's role.
    """

    def __init__(self, source: str = "{{ messages }} {{ tools }}", opening: str = "") -> None:
        self.source = source
        self._opening = opening
        self.asked: dict[str, Any] = {}
        self.plain = ChatTemplate("").plain

    def render(
        self,
        messages: list[dict[str, Any]],
        *,
        tools: list[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **kwargs: Any,
    ) -> str:
        self.asked = {"messages": messages, "tools": tools, "continue": continue_final_message, **kwargs}
        if messages[0]["content"] == "refuse me":
            raise InvalidRequestError("The template refuses these messages.", param="messages")
        text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        return text + (f"<|im_start|>assistant\n{self._opening}" if add_generation_prompt else "")


class FakeEngine:
    """Speaks the engine's protocol.

    Args:
        text: what every completion says (completion i > 0 says it after "i: ").
        delay: seconds between two tokens; 0 gives control away without waiting.
        max_running: more requests than this are refused as an overload.
        fail_after: raise `error` after so many tokens of a completion.
        error: what to raise.
        burst: tokens handed out at once, as when a step of an engine made several.
        backwards: the last of a prompt's completions comes first.
    """

    def __init__(
        self,
        text: str = "The quick brown fox says: naïve café 🙂 — done.",
        *,
        delay: float = 0.0,
        max_running: int = 1000,
        fail_after: int | None = None,
        error: Exception | None = None,
        burst: int = 1,
        backwards: bool = False,
        max_model_len: int = 512,
        max_waiting: int = 1024,
        defaults: Mapping[str, float | int] | None = None,
        chat: bool = True,
        template: FakeTemplate | None = None,
    ) -> None:
        self.model_name = "fake"
        self.max_model_len = max_model_len
        self.max_waiting = max_waiting
        self.vocab_size = VOCAB_SIZE
        self.tokenizer = FakeTokenizer()
        self.chat_template = (template or FakeTemplate()) if chat else None
        self.generation_defaults: Mapping[str, float | int] = defaults or {}
        self.requests: list[Request] = []
        self.compiled: list[tuple[StructuredOutput, str]] = []  # with the thread's name
        self.running: set[str] = set()
        self.aborted: list[str] = []
        self.started = self.stopped = self.draining = False
        self.dead: str | None = None
        self.num_waiting = 0
        self._text, self._delay, self._max_running = text, delay, max_running
        self._fail_after, self._error, self._burst = fail_after, error, burst
        self._backwards = backwards
        self._prompts: set[tuple[int, ...]] = set()
        self._prompt_tokens = self._generation_tokens = self._hits = 0

    async def start(self) -> None:
        self.started = True

    async def stop(self) -> None:
        self.stopped = True
        self.running.clear()  # generate sees that it is gone and says so

    async def drain(self, timeout: float) -> bool:
        self.draining = True
        deadline = asyncio.get_running_loop().time() + timeout
        while self.running and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.005)
        return not self.running

    def stats(self) -> EngineStats:
        return EngineStats(
            num_running=len(self.running),
            num_waiting=self.num_waiting,
            kv_usage=0.25,
            prefix_queries_tokens=self._prompt_tokens,
            prefix_hit_tokens=self._hits,
            preemptions=0,
            steps=self._generation_tokens,
            prompt_tokens=self._prompt_tokens,
            generation_tokens=self._generation_tokens,
            dead=self.dead,
        )

    def check(self) -> None:
        assert not self.running

    def compile_structured(self, structured: StructuredOutput) -> None:
        if "impossible" in structured.text:
            raise InvalidRequestError("it is impossible.", param="structured")
        self.compiled.append((structured, threading.current_thread().name))

    def listen(self, request: Request, hear: Callable[[list[RequestOutput]], None]) -> Callable[[], None]:
        if self._error is not None and self._fail_after is None:
            raise self._error
        if len(self.running) >= self._max_running:
            raise OverloadedError("The queue is full; try again soon.", retry_after=3)
        self.requests.append(request)
        self.running.add(request.request_id)
        finished = False

        async def run() -> None:
            nonlocal finished
            try:
                gathered = []
                async for output in self._outputs(request):
                    gathered.append(output)
                    if len(gathered) == self._burst or output.finish_reason is not None:
                        hear(gathered)
                        gathered = []
            except EngineError as error:
                ends = {"finish_reason": "error", "error": str(error)}
                hear(
                    [
                        RequestOutput(request_id=request.request_id, index=i, **ends)
                        for i in range(request.sampling.n)
                    ]
                )
                self.aborted.append(request.request_id)
            finished = True
            self.running.discard(request.request_id)

        task = asyncio.create_task(run())

        def abort() -> None:
            if not finished and request.request_id in self.running:
                task.cancel()
                self.running.discard(request.request_id)
                self.aborted.append(request.request_id)

        return abort

    async def _outputs(self, request: Request) -> AsyncIterator[RequestOutput]:
        prompt = request.prompt_token_ids
        cached = len(prompt) - 1 if prompt in self._prompts else 0
        self._prompts.add(prompt)
        self._prompt_tokens += len(prompt)
        self._hits += cached
        flows = [self._completion(request, index, cached) for index in range(request.sampling.n)]
        if self._backwards:
            flows.reverse()
        emitted = 0
        while flows:
            for flow in list(flows):
                output = next(flow, None)
                if output is None:
                    flows.remove(flow)
                    continue
                if self._fail_after is not None and output.completion_tokens > self._fail_after:
                    assert self._error is not None
                    raise self._error
                emitted += 1
                if emitted % self._burst == 0:
                    await asyncio.sleep(self._delay)
                if request.request_id not in self.running:
                    yield msgspec.structs.replace(
                        output, finish_reason="error", error="The server is shutting down."
                    )
                    return
                self._generation_tokens += 1
                yield output

    def _completion(self, request: Request, index: int, cached: int) -> Iterator[RequestOutput]:
        sampling = request.sampling
        text = self._text if index == 0 else f"{index}: {self._text}"
        stop_reason = None
        for stop in sampling.stop:
            if stop in text:
                text = text[: text.index(stop)]
                stop_reason = stop
        data = list(text.encode())
        room = len(data) if sampling.max_tokens is None else min(sampling.max_tokens, len(data))
        now = time.perf_counter()
        scores = _prompt_logprobs(request) if index == 0 else None
        if room == 0:
            yield RequestOutput(
                request_id=request.request_id,
                index=index,
                prompt_logprobs=scores,
                finish_reason="length",
                prompt_tokens=len(request.prompt_token_ids),
                cached_tokens=cached,
                queued_at=now,
                scheduled_at=now,
            )
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for number, token in enumerate(data[:room]):
            last = number + 1 == room
            logprobs = None
            if sampling.logprobs is not None:
                top = tuple(
                    (rival % 256, -float(rank))
                    for rank, rival in enumerate(range(token, token + sampling.logprobs))
                )
                logprobs = (TokenLogprobs(token, -0.5 - 0.25 * (index == 1), top),)
            yield RequestOutput(
                request_id=request.request_id,
                index=index,
                text=decoder.decode(bytes([token]), last),
                token_ids=(token,),
                logprobs=logprobs,
                prompt_logprobs=scores if number == 0 else None,
                finish_reason=("stop" if room == len(data) else "length") if last else None,
                stop_reason=stop_reason if last and room == len(data) else None,
                prompt_tokens=len(request.prompt_token_ids),
                cached_tokens=cached,
                completion_tokens=number + 1,
                queued_at=now,
                scheduled_at=now,
            )


def _prompt_logprobs(request: Request) -> tuple[TokenLogprobs, ...] | None:
    """Of each token after the first: one millionth of its place, and its successors as the likeliest."""
    most = request.sampling.prompt_logprobs
    if most is None:
        return None
    return tuple(
        TokenLogprobs(token, -place / 1e6, tuple((token + 1 + i, -float(i)) for i in range(most)), rank=7)
        for place, token in enumerate(request.prompt_token_ids[1:], 1)
    )
