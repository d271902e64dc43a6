"""A request's sampling fields as SamplingParams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenfold.core.errors import InvalidRequestError
from tenfold.core.sampling_params import MAX_LOGPROBS, SamplingParams
from tenfold.core.structured_output import StructuredOutput
from tenfold.server.protocol import GenerationRequest

# Fields whose names and meanings are the same in requests and in SamplingParams.
_PLAIN_FIELDS = (
    *("n", "temperature", "top_p", "top_k", "min_p", "typical_p"),
    *("repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("logit_bias", "seed", "min_tokens", "ignore_eos", "include_stop_str_in_output", "skip_special_tokens"),
)
# Of a model's recommendations, only how to pick tokens counts; lengths and ends are the request's.
_DEFAULT_FIELDS = frozenset(_PLAIN_FIELDS[1:9])
_MAX_SALT_CHARS = 1024
_MAX_PRIORITY = 2**31 - 1


def sampling_params(
    request: GenerationRequest,
    *,
    defaults: Mapping[str, float | int],
    max_tokens: int | None,
    logprobs: int | None,
    vocab_size: int,
    structured: StructuredOutput | None = None,
    prompt_logprobs: int | None = None,
    least_tokens: int = 1,
) -> SamplingParams:
    """SamplingParams of `request`: its fields over the model's defaults over ours.

    Raises InvalidRequestError naming the first field out of range.
    """
    values: dict[str, Any] = {name: value for name, value in defaults.items() if name in _DEFAULT_FIELDS}
    for name in _PLAIN_FIELDS:
        value = getattr(request, name)
        if value is not None:
            values[name] = value
    stop = request.stop
    if stop is not None:
        values["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    if request.stop_token_ids is not None:
        values["stop_token_ids"] = tuple(request.stop_token_ids)
    if max_tokens is not None and max_tokens < least_tokens:
        raise InvalidRequestError(
            f"max_tokens is {str(max_tokens)[:40]}; it must be at least {least_tokens}.", param="max_tokens"
        )
    params = SamplingParams(
        **values,
        max_tokens=max_tokens,
        logprobs=logprobs,
        structured=structured,
        prompt_logprobs=prompt_logprobs,
    )
    params.check(vocab_size)
    return params


def check_common(request: GenerationRequest) -> None:
    """Refuse fields that no route serves, and combinations that mean nothing."""
    scored = request.prompt_logprobs
    if scored is not None and not 0 <= scored <= MAX_LOGPROBS:
        raise InvalidRequestError(
            f"prompt_logprobs is {str(scored)[:40]}; it must be at least 0 and at most {MAX_LOGPROBS}.",
            param="prompt_logprobs",
        )
    if scored is not None and request.stream:
        raise InvalidRequestError(
            "prompt_logprobs come with whole replies only; leave it out, or stream.", param="prompt_logprobs"
        )
    if request.stream_options is not None and not request.stream:
        raise InvalidRequestError(
            "stream_options needs stream to be true; set it or leave stream_options out.",
            param="stream_options",
        )
    if request.cache_salt is not None and len(request.cache_salt) > _MAX_SALT_CHARS:
        raise InvalidRequestError(
            f"cache_salt has {len(request.cache_salt)} characters; the limit is {_MAX_SALT_CHARS}.",
            param="cache_salt",
        )
    if request.priority is not None and abs(request.priority) > _MAX_PRIORITY:
        raise InvalidRequestError(
            f"priority is {request.priority}; it must lie between -{_MAX_PRIORITY} and {_MAX_PRIORITY}.",
            param="priority",
        )


def check_top_logprobs(top: int | None) -> None:
    """Refuse a count of likeliest tokens that is out of range."""
    if top is not None and not 0 <= top <= MAX_LOGPROBS:
        raise InvalidRequestError(
            f"top_logprobs is {top}; it must be at least 0 and at most {MAX_LOGPROBS}.", param="top_logprobs"
        )
