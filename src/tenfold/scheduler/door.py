"""The door: refuses sequences that could never be served."""

from __future__ import annotations

from tenfold.core.errors import InvalidRequestError
from tenfold.kv.hashing import MAX_TOKEN_ID
from tenfold.scheduler.sequence import Sequence


def refuse_unfit(seq: Sequence, *, max_model_len: int, cache_tokens: int) -> None:
    """Check that a sequence has a prompt and that prompt and output fit both the model and the whole cache.

    Without max_tokens, room for one output token is asked for.

    Args:
        seq: the sequence.
        max_model_len: tokens that the model's context holds.
        cache_tokens: tokens that the KV cache holds when nothing else runs.

    Raises:
        InvalidRequestError: with code "context_length_exceeded" when it is too long.
    """
    if not seq.prompt_ids:
        raise InvalidRequestError("The prompt has no tokens; it needs at least one.", param="prompt")
    if min(seq.prompt_ids) < 0 or max(seq.prompt_ids) > MAX_TOKEN_ID:
        raise InvalidRequestError(
            f"The prompt has a token id outside 0 to {MAX_TOKEN_ID}; correct it.", param="prompt"
        )
    limit = min(max_model_len, cache_tokens)
    asked = seq.sampling.max_tokens
    if seq.prompt_len + (asked or 1) <= limit:
        return
    holder = "the model's context" if limit == max_model_len else "the KV cache"
    if seq.prompt_len + 1 > limit:
        raise InvalidRequestError(
            f"The prompt has {seq.prompt_len} tokens and {holder} holds {limit}, of which at least one is "
            "for the output; shorten the prompt.",
            param="prompt",
            code="context_length_exceeded",
        )
    raise InvalidRequestError(
        f"The prompt has {seq.prompt_len} tokens and max_tokens is {asked}, but {holder} holds {limit}; "
        f"lower max_tokens to {limit - seq.prompt_len} or shorten the prompt.",
        param="max_tokens",
        code="context_length_exceeded",
    )
