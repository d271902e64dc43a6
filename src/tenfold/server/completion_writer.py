"""Outputs into the replies of /v1/completions, streamed or whole."""

from __future__ import annotations

import time
from functools import partial

import msgspec

from tenfold.core.request import RequestOutput, TokenLogprobs
from tenfold.observe.metrics import RequestTimer
from tenfold.server.fanin import Batch
from tenfold.server.generation import Gathered, Job, Tally, check_batch, gather
from tenfold.server.logprobs import (
    Echo,
    TokenTexts,
    TokenWalk,
    completion_logprobs,
    echo_logprobs,
    mean_logprob,
    prompt_logprobs,
)
from tenfold.server.replies import (
    CompletionChoice,
    CompletionLogprobs,
    CompletionReply,
    PromptLogprobs,
    Usage,
)
from tenfold.server.sse import Template, event

_encoder = msgspec.json.Encoder()


class CompletionForm(msgspec.Struct, frozen=True, kw_only=True):
    """What the replies to a request hold.

    Args:
        echoes: of each prompt, what to repeat before its completions; empty when nothing is.
        logprobs: how many of the likeliest tokens to name beside each token; None for no log probabilities.
        prompt_logprobs: the same for the prompt in vLLM's shape.
        keep: completions a prompt to return, the likeliest of those made.
    """

    echoes: list[Echo]
    logprobs: int | None
    prompt_logprobs: int | None
    keep: int

    @property
    def scores_echo(self) -> bool:
        """Whether the repeated prompt has log probabilities."""
        return bool(self.echoes) and self.logprobs is not None


class CompletionWriter:
    """Shapes outputs into a completion's reply, streamed or whole.

    Args:
        job: the request.
        form: what the reply holds.
        timer: fed with every output.
        texts: token texts, for log probabilities.
    """

    def __init__(self, job: Job, form: CompletionForm, timer: RequestTimer, texts: TokenTexts) -> None:
        self._job = job
        self._form = form
        self._texts = texts
        self._tally = Tally(timer, job.sampling.n)
        self._created = int(time.time())
        self._templates: dict[int, Template] = {}  # of each choice that has begun
        self._walks: dict[int, TokenWalk] = {}
        self._echoes: dict[int, CompletionLogprobs] = {}  # of each prompt whose probabilities have come
        self._scores: dict[int, PromptLogprobs] = {}  # the same in vLLM's shape
        self._held: dict[int, list[tuple[int, RequestOutput]]] = {}
        self._gathered: dict[int, Gathered] = {}

    def chunks(self, batch: Batch) -> bytes:
        """The batch as complete events."""
        check_batch(batch)
        now = time.perf_counter()
        parts: list[bytes] = []
        for at, output in batch:
            choice = self._tally.note(at, output, now)
            self._take_scores(at, output)
            if self._form.scores_echo and at not in self._echoes:
                # Another of the prompt's completions has the probabilities with which this one begins.
                self._held.setdefault(at, []).append((choice, output))
                continue
            parts.append(self._events(at, choice, output))
            for held in self._held.pop(at, ()):
                parts.append(self._events(at, *held))
        return b"".join(parts)

    def end(self) -> bytes:
        """The usage chunk, if asked for."""
        return event(self._chunk([], self._tally.usage())) if self._job.usage_at_end else b""

    def add(self, batch: Batch) -> None:
        """Gather a batch for `whole`."""
        gather(batch, self._tally, self._gathered)
        for at, output in batch:
            self._take_scores(at, output)

    def whole(self) -> CompletionReply:
        """The reply's body."""
        made, keep = self._job.sampling.n, self._form.keep
        choices: list[CompletionChoice] = []
        for at in range(len(self._job.prompts)):
            numbers = list(range(at * made, (at + 1) * made))
            if keep < made:
                numbers.sort(key=lambda number: -mean_logprob(self._gathered[number].logprobs))
            for number in numbers[:keep]:
                choices.append(self._whole_choice(len(choices), at, number))
        job = self._job
        return CompletionReply(
            job.id, "text_completion", self._created, job.model, choices, self._tally.usage()
        )

    def _take_scores(self, at: int, output: RequestOutput) -> None:
        """Shape a prompt's probabilities when they come: those of many prompts at once would stop the event loop."""
        form, entries = self._form, output.prompt_logprobs
        if entries is None:
            return
        if form.scores_echo:
            self._echoes[at] = echo_logprobs(form.echoes[at], entries, self._texts, form.logprobs or 0)
        if form.prompt_logprobs is not None:
            self._scores[at] = prompt_logprobs(entries, self._texts, form.prompt_logprobs)

    def _whole_choice(self, index: int, at: int, number: int) -> CompletionChoice:
        done, form = self._gathered[number], self._form
        echo = form.echoes[at] if form.echoes else None
        logprobs = None
        if form.logprobs is not None:
            cut_off = done.finish_reason == "length"
            logprobs = self._logprobs(at, number, done.logprobs, cut_off=cut_off, begins=True)
        return CompletionChoice(
            index=index,
            text=(echo.text if echo is not None else "") + "".join(done.texts),
            logprobs=logprobs,
            finish_reason=done.finish_reason,
            stop_reason=done.stop_reason,
            prompt_logprobs=self._scores.get(at, msgspec.UNSET),
            prompt_token_ids=self._job.prompts[at] if self._job.token_ids else msgspec.UNSET,
            token_ids=done.token_ids if self._job.token_ids else msgspec.UNSET,
        )

    def _events(self, at: int, choice: int, output: RequestOutput) -> bytes:
        """The events for one output of a choice."""
        text, form = output.text, self._form
        template = self._templates.get(choice)
        begins = template is None
        if template is None:
            template = self._templates[choice] = Template(partial(self._text_chunk, choice))
            if form.echoes:
                text = form.echoes[at].text + text
        plain = output.finish_reason is None and form.logprobs is None and not self._job.token_ids
        if plain and not self._job.usage_always:
            return template.fill(text) if text else b""
        if not (text or output.token_ids or output.finish_reason is not None):
            return b""
        logprobs = None
        if form.logprobs is not None:
            logprobs = self._logprobs(
                at,
                choice,
                output.logprobs or (),
                cut_off=output.finish_reason == "length",
                begins=begins,
            )
        ends = output.finish_reason is not None
        piece = CompletionChoice(
            choice,
            text,
            logprobs,
            output.finish_reason,
            output.stop_reason if ends else msgspec.UNSET,
            prompt_token_ids=self._job.prompts[at] if self._job.token_ids and begins else msgspec.UNSET,
            token_ids=output.token_ids if self._job.token_ids else msgspec.UNSET,
        )
        return event(self._chunk([piece], self._usage_so_far()))

    def _logprobs(
        self,
        at: int,
        choice: int,
        entries: tuple[TokenLogprobs, ...] | list[TokenLogprobs],
        *,
        cut_off: bool,
        begins: bool,
    ) -> CompletionLogprobs:
        """The arrays of the next tokens of a choice, after those of the prompt when it begins with them."""
        echo = self._form.echoes[at] if self._form.echoes else None
        walk = self._walks.get(choice)
        if walk is None:
            skip = self._job.sampling.skip_special_tokens
            offset = 0 if echo is None else len(echo.text)
            walk = self._walks[choice] = TokenWalk(self._texts, offset=offset, skip_special=skip)
        arrays = completion_logprobs(entries, self._texts, walk, cut_off=cut_off)
        if echo is None or not begins:
            return arrays
        prompt = self._echoes[at]
        return CompletionLogprobs(
            prompt.tokens + arrays.tokens,
            prompt.token_logprobs + arrays.token_logprobs,
            prompt.top_logprobs + arrays.top_logprobs,
            prompt.text_offset + arrays.text_offset,
        )

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
