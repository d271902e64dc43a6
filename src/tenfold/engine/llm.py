"""The Python API: `LLM("smollm2").generate(...)`, `.chat(...)`, and async streaming."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from collections.abc import Sequence as Items
from itertools import count
from operator import index
from typing import Any

import msgspec

from tenfold.checkpoints.resolve import resolve
from tenfold.config.engine import EngineSettings
from tenfold.core.errors import InvalidRequestError
from tenfold.core.request import FinishReason, Request, RequestOutput, TokenLogprobs
from tenfold.core.sampling_params import SamplingParams
from tenfold.engine.core import EngineCore
from tenfold.engine.model import Model, load_model
from tenfold.text.chat_prompt import ChatPromptEncoder


class CompletionResult(msgspec.Struct, kw_only=True):
    """One finished completion: its text, tokens, and why it ended."""

    index: int
    text: str = ""
    token_ids: list[int] = msgspec.field(default_factory=list)
    logprobs: list[TokenLogprobs] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None


class GenerationResult(msgspec.Struct, kw_only=True):
    """What became of one prompt: its n completions, best read by `.text` when n is 1.

    `prompt_logprobs`, if asked for, has an entry for each of the prompt's tokens after the first.
    """

    prompt_token_ids: tuple[int, ...]
    cached_tokens: int = 0
    prompt_logprobs: list[TokenLogprobs] | None = None
    outputs: list[CompletionResult] = msgspec.field(default_factory=list)

    @property
    def text(self) -> str:
        """Text of the first completion."""
        return self.outputs[0].text


class LLM:
    """A model in this process.

    Args:
        model: a catalog name, GGUF file, Hugging Face folder or hub id; None is the catalog's default.
        **settings: fields of EngineSettings, such as threads=2 or max_model_len=4096.
    """

    def __init__(self, model: str | None = None, **settings: Any) -> None:
        self.model: Model = load_model(resolve(model), EngineSettings(**settings))
        self._core = EngineCore(self.model)
        self._ids = count()
        # Whoever waits for a request steps the engine for everybody; the mail keeps the others' outputs.
        self._lock = threading.Lock()
        self._mail: dict[str, deque[RequestOutput]] = {}

    def sampling_params(self, **given: Any) -> SamplingParams:
        """What the model's authors recommend, under the fields given; None counts as not given.

        Raises:
            InvalidRequestError: a field is out of range.
        """
        fields = {name: value for name, value in given.items() if value is not None}
        params = SamplingParams(**{**self.model.generation_defaults, **fields})
        params.check()
        return params

    def generate(
        self, prompts: str | Items[str] | Items[Items[int]], sampling_params: SamplingParams | None = None
    ) -> list[GenerationResult]:
        """Complete prompts (texts or lists of token ids) in one continuous batch.

        Raises:
            InvalidRequestError: a prompt or parameter cannot be served.
        """
        if isinstance(prompts, str):
            prompts = [prompts]
        if not isinstance(prompts, Iterable):
            raise InvalidRequestError(
                f"prompts must be texts or lists of token ids, not {prompts!r:.40}.", param="prompts"
            )
        ids = [self._encode(prompt) for prompt in prompts]
        return self._run(ids, sampling_params or self.sampling_params())

    def chat(
        self,
        messages: Items[Mapping[str, Any]] | Items[Items[Mapping[str, Any]]],
        sampling_params: SamplingParams | None = None,
        **template_args: Any,
    ) -> list[GenerationResult]:
        """Answer one conversation, or several, through the model's chat template."""
        talks: Items[Any] = [messages] if messages and isinstance(messages[0], Mapping) else messages
        ids = [self._render(talk, template_args) for talk in talks]
        return self._run(ids, sampling_params or self.sampling_params())

    async def stream(
        self,
        prompt: str | Items[int] | Items[Mapping[str, Any]],
        sampling_params: SamplingParams | None = None,
    ) -> AsyncIterator[RequestOutput]:
        """Yield a prompt's (or a list of messages') outputs token by token; leaving the loop aborts it."""
        is_chat = not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], Mapping)
        ids = self._render(prompt, {}) if is_chat else self._encode(prompt)  # type: ignore[arg-type]
        params = sampling_params or self.sampling_params()
        request_id = self._add(ids, params)
        unfinished = params.n
        try:
            while unfinished:
                for output in await asyncio.to_thread(self._pump, request_id):
                    unfinished -= output.finish_reason is not None
                    yield output
        finally:
            self._forget(request_id)

    def _encode(self, prompt: str | Items[int]) -> tuple[int, ...]:
        if isinstance(prompt, str):
            return tuple(self.model.tokenizer.encode(prompt))
        try:
            if not isinstance(prompt, bytes):
                return tuple(map(index, prompt))
        except TypeError:
            pass
        raise InvalidRequestError(
            f"A prompt must be a text or a list of token ids, not {prompt!r:.40}.", param="prompt"
        )

    def _render(self, messages: Any, template_args: Mapping[str, Any]) -> tuple[int, ...]:
        if self.model.chat_template is None:
            raise InvalidRequestError("The model has no chat template (it is a base model); use generate().")
        encoder = ChatPromptEncoder(self.model.tokenizer, self.model.chat_template)
        return tuple(encoder.encode([dict(m) for m in messages], **template_args))

    def _run(self, prompts: list[tuple[int, ...]], params: SamplingParams) -> list[GenerationResult]:
        results: dict[str, GenerationResult] = {}
        try:
            for ids in prompts:
                request_id = self._add(ids, params)  # first: it checks the parameters
                results[request_id] = GenerationResult(
                    prompt_token_ids=ids,
                    outputs=[
                        CompletionResult(index=i, logprobs=[] if params.logprobs is not None else None)
                        for i in range(params.n)
                    ],
                )
            for request_id, result in results.items():
                while any(output.finish_reason is None for output in result.outputs):
                    for output in self._pump(request_id):
                        _collect(result, output)
        finally:
            for request_id in results:
                self._forget(request_id)
        return list(results.values())

    def _add(self, ids: tuple[int, ...], params: SamplingParams) -> str:
        if not isinstance(params, SamplingParams):
            raise InvalidRequestError(f"sampling_params must be SamplingParams, not {params!r:.40}.")
        request_id = f"request-{next(self._ids)}"
        with self._lock:
            self._core.add(Request(request_id=request_id, prompt_token_ids=ids, sampling=params))
            self._mail[request_id] = deque()
        return request_id

    def _pump(self, request_id: str) -> list[RequestOutput]:
        with self._lock:
            mail = self._mail[request_id]
            if not mail:
                for output in self._core.step():
                    if output.request_id in self._mail:
                        self._mail[output.request_id].append(output)
            outputs = list(mail)
            mail.clear()
        return outputs

    def _forget(self, request_id: str) -> None:
        with self._lock:
            self._mail.pop(request_id, None)
            self._core.abort(request_id)


def _collect(result: GenerationResult, output: RequestOutput) -> None:
    completion = result.outputs[output.index]
    completion.text += output.text
    completion.token_ids.extend(output.token_ids)
    if completion.logprobs is not None and output.logprobs is not None:
        completion.logprobs.extend(output.logprobs)
    completion.finish_reason = output.finish_reason
    completion.stop_reason = output.stop_reason
    result.cached_tokens = output.cached_tokens
    if output.prompt_logprobs is not None:
        result.prompt_logprobs = list(output.prompt_logprobs)
