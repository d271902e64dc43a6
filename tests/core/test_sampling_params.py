"""Sampling parameters out of range are refused, whatever their size."""

from __future__ import annotations

import math

import pytest

from tenfold.core.errors import InvalidRequestError
from tenfold.core.sampling_params import MAX_LOGIT_BIAS, MAX_STOP_TOKEN_IDS, SamplingParams

NUMBERS = (
    "n",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "presence_penalty",
)
NUMBERS += ("frequency_penalty", "max_tokens", "min_tokens", "logprobs", "prompt_logprobs", "seed")


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [10**400, -(10**400), math.inf, -math.inf, math.nan])
def test_numbers_of_any_size_are_refused_by_name(name, value):
    with pytest.raises(InvalidRequestError) as refusal:
        SamplingParams(**{name: value}).check()
    assert refusal.value.param == name
    assert len(str(refusal.value)) < 200


def test_limits_are_said_exactly():
    with pytest.raises(InvalidRequestError, match="at least 0 and at most 2147483647"):
        SamplingParams(max_tokens=-1).check()
    with pytest.raises(InvalidRequestError, match=r"top_p is 0\.0; it must be above 0 and at most 1\."):
        SamplingParams(top_p=0.0).check()
    SamplingParams(max_tokens=1, top_p=1.0, temperature=0, seed=-(2**63)).check()


@pytest.mark.parametrize("id", [10**400, -1, 50])
def test_ids_outside_the_vocabulary(id):
    for name, params in (
        ("logit_bias", SamplingParams(logit_bias={id: 1.0})),
        ("stop_token_ids", SamplingParams(stop_token_ids=(id,))),
    ):
        with pytest.raises(InvalidRequestError) as refusal:
            params.check(50)
        assert refusal.value.param == name


def test_long_lists_of_ids_are_refused():
    biased = dict.fromkeys(range(MAX_LOGIT_BIAS), 0.5)
    stops = tuple(range(MAX_STOP_TOKEN_IDS))
    SamplingParams(logit_bias=biased, stop_token_ids=stops).check(10_000)
    with pytest.raises(InvalidRequestError, match="logit_bias has 1025 token ids; the limit is 1024"):
        SamplingParams(logit_bias={**biased, 5000: 1.0}).check(10_000)
    with pytest.raises(InvalidRequestError, match="stop_token_ids has 1025 token ids; the limit is 1024"):
        SamplingParams(stop_token_ids=(*stops, 5000)).check(10_000)
