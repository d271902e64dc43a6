import pytest

from tenfold.core.errors import InvalidRequestError
from tenfold.core.sampling_params import SamplingParams
from tenfold.scheduler.door import refuse_unfit
from tenfold.scheduler.sequence import Sequence


def refuse(length, max_tokens=None, *, model=64, cache=64, prompt=None):
    prompt_ids = tuple(range(length)) if prompt is None else prompt
    sampling = SamplingParams(max_tokens=max_tokens)
    seq = Sequence(seq_id=1, request_id="r", prompt_ids=prompt_ids, sampling=sampling)
    refuse_unfit(seq, max_model_len=model, cache_tokens=cache)


@pytest.mark.parametrize("length, max_tokens", [(1, None), (63, None), (63, 1), (1, 63), (32, 32)])
def test_what_just_fits_is_taken(length, max_tokens):
    refuse(length, max_tokens)


@pytest.mark.parametrize(
    "length, max_tokens, limits, holder, param",
    [
        (64, None, {}, "the model's context", "prompt"),
        (64, 1, {}, "the model's context", "prompt"),
        (500, 1, {}, "the model's context", "prompt"),
        (63, 2, {}, "the model's context", "max_tokens"),
        (1, 2**31 - 1, {}, "the model's context", "max_tokens"),
        (40, None, {"cache": 40}, "the KV cache", "prompt"),
        (20, 30, {"cache": 40}, "the KV cache", "max_tokens"),
    ],
)
def test_what_does_not_fit_is_refused_with_limit_and_mend(length, max_tokens, limits, holder, param):
    with pytest.raises(InvalidRequestError, match=f"{length} tokens.*{holder} holds") as caught:
        refuse(length, max_tokens, **limits)
    assert caught.value.code == "context_length_exceeded"
    assert caught.value.param == param


def test_the_mend_of_max_tokens_fits():
    with pytest.raises(InvalidRequestError, match="lower max_tokens to 44 or"):
        refuse(20, 50)
    refuse(20, 44)


@pytest.mark.parametrize("prompt", [(), (-1,), (1, 2**32)])
def test_a_prompt_is_token_ids(prompt):
    with pytest.raises(InvalidRequestError) as caught:
        refuse(0, prompt=prompt)
    assert caught.value.param == "prompt" and caught.value.code is None
