"""One completion of a request while it runs: its tokens become text, and it knows when it ends."""

from __future__ import annotations

from array import array

from tenfold.core.request import FinishReason, Request, RequestOutput, TokenLogprobs
from tenfold.grammar.grammars import Grammar
from tenfold.grammar.matcher import Bits, Matcher
from tenfold.scheduler.sequence import Sequence
from tenfold.text.detokenizer import IncrementalDetokenizer
from tenfold.text.stop import StopMatcher
from tenfold.text.tokenizer import Tokenizer


class Completion:
    """Turns sampled tokens into RequestOutputs and decides the end.

    Args:
        request: the request it belongs to.
        sequence: its state in the scheduler.
        tokenizer: for text and end tokens.
        seed: of its random stream.
        room: output tokens that fit the model's context, an upper bound on max_tokens.
        grammar: what its text must match; None leaves it free.
    """

    def __init__(
        self,
        request: Request,
        sequence: Sequence,
        tokenizer: Tokenizer,
        seed: int,
        room: int,
        grammar: Grammar | None = None,
    ) -> None:
        self.request = request
        self.sequence = sequence
        self.seed = seed
        self.queued_at: float | None = None
        self.scheduled_at: float | None = None
        self._grammar = grammar
        self._matcher: Matcher | None = None  # begun with the first token: those who wait shall cost little
        params = request.sampling
        # Read at every token under this penalty, so converted once.
        self.penalized_ids = array("i", request.prompt_token_ids) if params.repetition_penalty != 1 else ()
        self.prompt_logprobs: list[TokenLogprobs] = []  # gathered chunk by chunk, given with the first output
        self._ends = frozenset(params.stop_token_ids)
        if not params.ignore_eos:
            self._ends |= frozenset(tokenizer.eos_ids)
        # After an end token a grammar has nothing to say: where it may not end the text, it must not come.
        self._unwanted = tokenizer.eos_ids if params.ignore_eos and grammar is not None else ()
        # min_tokens bans every token that would end the text before it is allowed to.
        self._banned_early = tuple(sorted(self._ends.union(self._unwanted)))
        self._max_tokens = room if params.max_tokens is None else min(params.max_tokens, room)
        self._detokenizer = IncrementalDetokenizer(
            tokenizer, skip_special=params.skip_special_tokens, shown_special=params.shown_special_ids
        )
        self._stop = (
            StopMatcher(params.stop, include=params.include_stop_str_in_output) if params.stop else None
        )

    @property
    def count(self) -> int:
        """Output tokens so far."""
        return len(self.sequence.output_ids)

    def banned(self) -> tuple[int, ...]:
        """Tokens that must not be picked next."""
        return self._banned_early if self.count < self.request.sampling.min_tokens else self._unwanted

    def mask(self) -> Bits | None:
        """The tokens that the grammar allows next, uint32 [ceil(vocabulary / 32)], a bit a token; None without one."""
        if self._grammar is None:
            return None
        if self._matcher is None:
            self._matcher = self._grammar.matcher()
        return self._matcher.mask()

    def take(self, sampled: TokenLogprobs) -> RequestOutput:
        """Account for the token just appended to the sequence; its finish_reason says whether it was the last."""
        token = sampled.token_id
        reason: FinishReason | None = None
        stop_reason: str | int | None = None
        text = ""
        if token < 0:
            return self.end("error", error=self._nothing_left())
        if self._max_tokens == 0:  # only the prompt was wanted
            return self._output("", (), sampled, "length", None)
        early = self.count <= self.request.sampling.min_tokens
        if token in self._ends and not early:
            reason = "stop"
            stop_reason = token if token in self.request.sampling.stop_token_ids else None
        else:
            text = self._detokenizer.push(token)
            if self._stop is not None:
                text, matched = self._stop.push(text)
                if matched is not None:
                    reason, stop_reason = "stop", matched
            if reason is None and self._matcher is not None and self._matcher.take(token):
                if self._matcher.error is not None:
                    return self.end("error", error=self._nothing_left())
                reason = "stop"
            if reason is None and self.count >= self._max_tokens:
                reason = "length"
        if reason is not None and not isinstance(stop_reason, str):
            text += self._rest()
        return self._output(text, (token,), sampled, reason, stop_reason)

    def end(self, reason: FinishReason, error: str | None = None) -> RequestOutput:
        """The last output of a completion that ends without a further token."""
        return self._output("", (), None, reason, None, error)

    def _nothing_left(self) -> str:
        if self._matcher is None:
            return "The model gave no finite logit; its weights or its input are damaged."
        if self._matcher.error is not None:
            return f"The structured output cannot be continued here: {self._matcher.error}."
        return "The structured output allows no token here that the request does not ban; ban fewer."

    def _rest(self) -> str:
        text = self._detokenizer.flush()
        if self._stop is None:
            return text
        emitted, matched = self._stop.push(text)
        return emitted if matched is not None else emitted + self._stop.flush()

    def _output(
        self,
        text: str,
        token_ids: tuple[int, ...],
        sampled: TokenLogprobs | None,
        reason: FinishReason | None,
        stop_reason: str | int | None,
        error: str | None = None,
    ) -> RequestOutput:
        params = self.request.sampling
        scored = sampled is not None and self.count == 1 and params.prompt_logprobs is not None
        return RequestOutput(
            request_id=self.request.request_id,
            index=self.sequence.index,
            text=text,
            token_ids=token_ids,
            logprobs=(sampled,)
            if sampled is not None and token_ids and params.logprobs is not None
            else None,
            prompt_logprobs=self._take_prompt_logprobs() if scored and self.sequence.index == 0 else None,
            finish_reason=reason,
            stop_reason=stop_reason,
            prompt_tokens=len(self.request.prompt_token_ids),
            cached_tokens=self.sequence.cached_tokens,
            completion_tokens=min(self.count, self._max_tokens),
            error=error,
            queued_at=self.queued_at,
            scheduled_at=self.scheduled_at,
        )

    def _take_prompt_logprobs(self) -> tuple[TokenLogprobs, ...]:
        entries, self.prompt_logprobs = tuple(self.prompt_logprobs), []
        return entries
