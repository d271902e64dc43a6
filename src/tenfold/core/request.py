"""A request as the engine takes it, and what comes back."""

from __future__ import annotations

from typing import Literal

import msgspec

from tenfold.core.sampling_params import SamplingParams

FinishReason = Literal["stop", "length", "abort", "error"]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt to complete.

    Args:
        request_id: unique among live requests.
        prompt_token_ids: the prompt, at least one token.
        sampling: how to pick tokens.
        priority: lower runs first; equal priorities run in order of arrival.
        cache_salt: prefix-cache entries are shared only between equal salts.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    priority: int = 0
    cache_salt: str = ""


class TokenLogprobs(msgspec.Struct, frozen=True):
    """Natural-log probabilities for one sampled token, or one of the prompt, from the model's raw logits.

    Args:
        token_id: the token.
        logprob: its log probability.
        top: (token id, log probability) of the likeliest tokens, best first.
        rank: of a prompt's token, how many tokens are at least as likely, itself included; else 0.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    rank: int = 0


class RequestOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What one step added to one completion of a request.

    Args:
        request_id: the request.
        index: which of its n completions.
        text: the new text (may be empty while bytes of a character or a possible stop string are held back).
        token_ids: the new tokens.
        logprobs: one entry a new token, when the request asked for them.
        prompt_logprobs: one entry for each of the prompt's tokens after the first, on the first output of the
            request's completion 0, when the request asked for them.
        finish_reason: set on the completion's last output.
        stop_reason: the stop string or stop token id that ended it, if one did.
        prompt_tokens: tokens in the prompt.
        cached_tokens: of them, how many came from the prefix cache.
        completion_tokens: output tokens so far for this completion.
        error: the sentence for the user when finish_reason is "error".
        queued_at: when the engine took it in, in time.perf_counter's seconds.
        scheduled_at: when its first step was planned; None if that never was.
    """

    request_id: str
    index: int = 0
    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] | None = None
    prompt_logprobs: tuple[TokenLogprobs, ...] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    error: str | None = None
    queued_at: float | None = None
    scheduled_at: float | None = None
