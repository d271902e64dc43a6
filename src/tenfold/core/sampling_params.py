"""How to pick tokens: the sampling parameters of one request."""

from __future__ import annotations

import re

import msgspec

from tenfold.core.errors import InvalidRequestError
from tenfold.core.structured_output import StructuredOutput

MAX_LOGPROBS = 20
MAX_STOP_STRINGS = 16
MAX_STOP_CHARS = 1024
MAX_N = 64
# Every step reads these lists again, so a long one would slow down everybody.
MAX_LOGIT_BIAS = 1024
MAX_STOP_TOKEN_IDS = 1024


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling parameters, with the names and meanings of OpenAI and vLLM.

    Args:
        n: completions per prompt; they share the prompt's KV blocks.
        temperature: 0 is greedy.
        top_k: keep the k likeliest tokens; 0 or -1 keeps all.
        top_p: keep the smallest set of likeliest tokens whose mass reaches top_p.
        min_p: drop tokens less likely than min_p times the likeliest.
        typical_p: locally typical sampling (arXiv:2202.00666); 1 is off.
        repetition_penalty: over prompt and output tokens (arXiv:1909.05858); 1 is off.
        presence_penalty: subtracted once for each token already in the output.
        frequency_penalty: subtracted for every occurrence in the output.
        logit_bias: token id to a number added to its logit, 1,024 at most.
        seed: same seed, same text, whatever else runs; None draws a seed at admission.
        max_tokens: bound on output tokens; None is up to the model's context length, 0 computes the prompt alone.
        min_tokens: end and stop tokens are banned until this many tokens are out.
        stop: strings that end the output; they are not returned unless include_stop_str_in_output.
        stop_token_ids: token ids that end the output, besides the model's own end tokens.
        ignore_eos: do not end at the model's end tokens.
        logprobs: None for none, else how many top alternatives to return per token (0 to 20).
        prompt_logprobs: the same for the prompt's tokens, all but the first.
        include_stop_str_in_output: return the stop string too.
        skip_special_tokens: leave special tokens out of the text.
        shown_special_ids: special tokens that are in the text even so.
        structured: the form that the text must take; None leaves it free.
    """

    n: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[int, float] = msgspec.field(default_factory=dict)
    seed: int | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    shown_special_ids: tuple[int, ...] = ()
    structured: StructuredOutput | None = None

    def __post_init__(self) -> None:
        """Take a single stop string, and lists, as people write them."""
        if isinstance(self.stop, str):
            msgspec.structs.force_setattr(self, "stop", (self.stop,))
        for name in ("stop", "stop_token_ids", "shown_special_ids"):
            if isinstance(getattr(self, name), list):
                msgspec.structs.force_setattr(self, name, tuple(getattr(self, name)))

    def check(self, vocab_size: int | None = None) -> None:
        """Raise InvalidRequestError naming the first field that has a wrong type or is out of range."""
        self._check_types()
        _in_range("n", self.n, 1, MAX_N)
        _in_range("temperature", self.temperature, 0.0, 100.0)
        _in_range("top_k", self.top_k, -1, 2**31 - 1)
        _in_range("top_p", self.top_p, 0.0, 1.0, open_low=True)
        _in_range("min_p", self.min_p, 0.0, 1.0)
        _in_range("typical_p", self.typical_p, 0.0, 1.0, open_low=True)
        _in_range("repetition_penalty", self.repetition_penalty, 0.0, 100.0, open_low=True)
        _in_range("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _in_range("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        if self.max_tokens is not None:
            _in_range("max_tokens", self.max_tokens, 0, 2**31 - 1)
        _in_range("min_tokens", self.min_tokens, 0, 2**31 - 1)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise InvalidRequestError(
                f"min_tokens is {self.min_tokens}, above max_tokens, {self.max_tokens}; lower it.",
                param="min_tokens",
            )
        if self.logprobs is not None:
            _in_range("logprobs", self.logprobs, 0, MAX_LOGPROBS)
        if self.prompt_logprobs is not None:
            _in_range("prompt_logprobs", self.prompt_logprobs, 0, MAX_LOGPROBS)
        if self.seed is not None:
            _in_range("seed", self.seed, -(2**63), 2**63 - 1)
        if len(self.stop) > MAX_STOP_STRINGS:
            raise InvalidRequestError(
                f"stop has {len(self.stop)} strings; the limit is {MAX_STOP_STRINGS}.", param="stop"
            )
        longest = max(map(len, self.stop), default=0)
        if longest > MAX_STOP_CHARS:
            raise InvalidRequestError(
                f"stop has a string of {longest} characters; the limit is {MAX_STOP_CHARS}.", param="stop"
            )
        if any(not text for text in self.stop):
            raise InvalidRequestError("stop has an empty string; remove it.", param="stop")
        for name, listed, limit in (
            ("logit_bias", len(self.logit_bias), MAX_LOGIT_BIAS),
            ("stop_token_ids", len(self.stop_token_ids), MAX_STOP_TOKEN_IDS),
        ):
            if listed > limit:
                raise InvalidRequestError(f"{name} has {listed} token ids; the limit is {limit}.", param=name)
        for token_id, bias in self.logit_bias.items():
            _token_in_vocab("logit_bias", token_id, vocab_size)
            _in_range(f"logit_bias[{token_id}]", bias, -100.0, 100.0)
        for token_id in self.stop_token_ids:
            _token_in_vocab("stop_token_ids", token_id, vocab_size)
        if self.structured is not None:
            if not isinstance(self.structured, StructuredOutput):
                raise InvalidRequestError("structured is wrong: give a StructuredOutput.", param="structured")
            self.structured.check()

    def _check_types(self) -> None:
        try:
            msgspec.convert({name: getattr(self, name) for name in self.__struct_fields__}, SamplingParams)
        except msgspec.ValidationError as error:
            problem, _, where = str(error).partition(" - at ")
            named = re.search(r"\$\.(\w+)", where)
            name = named[1] if named else "sampling_params"
            raise InvalidRequestError(
                f"{name} is wrong: {problem[:1].lower()}{problem[1:]}.", param=name
            ) from None


def _in_range(name: str, value: float, low: float, high: float, *, open_low: bool = False) -> None:
    # Only comparisons: they are exact for ints of any size, and false for NaN.
    if low <= value <= high and not (open_low and value == low):
        return
    least = f"above {low:.16g}" if open_low else f"at least {low:.16g}"
    raise InvalidRequestError(
        f"{name} is {_shown(value)}; it must be {least} and at most {high:.16g}.", param=name
    )


def _shown(value: float) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _token_in_vocab(name: str, token_id: int, vocab_size: int | None) -> None:
    if token_id < 0 or (vocab_size is not None and token_id >= vocab_size):
        limit = "" if vocab_size is None else f" and below the vocabulary's size, {vocab_size}"
        raise InvalidRequestError(
            f"{name} names token {_shown(token_id)}; ids must be at least 0{limit}.", param=name
        )
