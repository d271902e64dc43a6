"""What the samplers mean: distributions, penalties, biases and seeds, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tenfold import _native
from tenfold.core.sampling_params import SamplingParams
from tenfold.sampling.batch import SamplingRow, sampling_batch

# A small vocabulary in no order of likelihood.
PROBABILITIES = np.array([0.05, 0.4, 0.015, 0.15, 0.25, 0.03, 0.1, 0.005])
LOGITS = np.log(PROBABILITIES).astype(np.float32) + 3


def sample(logits: Any, rows: list[SamplingRow]) -> list[int]:
    arrays = _native.SamplingArrays(*sampling_batch(rows).arguments())
    logits = np.ascontiguousarray(
        np.broadcast_to(np.asarray(logits, np.float32), (len(rows), np.shape(logits)[-1]))
    )
    return _native.sample(_native.supported_isas()[-1], logits, arrays)[0].tolist()


def greedy(logits: list[float], prompt: Any = (), output: Any = (), banned: Any = (), **params: Any) -> int:
    row = SamplingRow(
        params=SamplingParams(temperature=0.0, **params),
        seed=0,
        draw=0,
        prompt_ids=prompt,
        output_ids=output,
        banned_ids=banned,
    )
    return sample(logits, [row])[0]


def only(*probabilities: float) -> np.ndarray:
    return np.where(np.isin(PROBABILITIES, probabilities), PROBABILITIES, 0)


DISTRIBUTIONS: list[tuple[dict[str, Any], np.ndarray]] = [
    ({}, PROBABILITIES),
    ({"temperature": 2.0}, PROBABILITIES**0.5),
    ({"temperature": 0.5}, PROBABILITIES**2),
    ({"top_k": 3}, only(0.4, 0.25, 0.15)),
    ({"top_p": 0.75}, only(0.4, 0.25, 0.15)),  # 0.65 is short of it
    ({"top_p": 0.64}, only(0.4, 0.25)),
    ({"min_p": 0.2}, only(0.4, 0.25, 0.15, 0.1)),  # at least 0.08
    # The entropy is 1.572; -ln p is 0.186 from it for 0.25, 0.325 for 0.15, 0.656 for 0.4, 0.730 for 0.1.
    ({"typical_p": 0.35}, only(0.25, 0.15)),
    ({"typical_p": 0.5}, only(0.25, 0.15, 0.4)),
    # Of four tokens with mass 0.9, 0.4 and 0.25 hold 0.72 and 0.15 is needed too.
    ({"top_k": 4, "top_p": 0.75}, only(0.4, 0.25, 0.15)),
    ({"min_p": 0.3, "top_k": 2, "temperature": 2.0}, only(0.4, 0.25) ** 0.5),
]


@pytest.mark.parametrize(
    ("params", "weights"), DISTRIBUTIONS, ids=lambda x: str(x) if isinstance(x, dict) else ""
)
@pytest.mark.parametrize("vary", ["draw", "seed"])
def test_draws_follow_the_distribution(params: dict[str, Any], weights: np.ndarray, vary: str) -> None:
    count = 20_000
    settings = SamplingParams(**params)
    rows = [
        SamplingRow(params=settings, seed=i if vary == "seed" else 1234, draw=i if vary == "draw" else 0)
        for i in range(count)
    ]
    counts = np.bincount(sample(LOGITS, rows), minlength=len(weights))
    possible = weights > 0
    assert counts[~possible].sum() == 0
    expected = count * weights[possible] / weights.sum()
    chi_square = ((counts[possible] - expected) ** 2 / expected).sum()
    freedom = possible.sum() - 1
    assert chi_square < freedom + 4 * np.sqrt(2 * freedom) + 4  # beyond the 99.9th percentile for 1 to 7


def test_a_stream_depends_on_its_seed_alone() -> None:
    def stream(seed: int) -> list[int]:
        return sample(LOGITS, [SamplingRow(params=SamplingParams(), seed=seed, draw=i) for i in range(64)])

    assert stream(5) == stream(5)
    assert stream(5) != stream(6)
    assert stream(-1) == stream(2**64 - 1)


def test_repetition_penalty_divides_positive_and_multiplies_negative_logits() -> None:
    assert greedy([2.0, 1.1], prompt=[0], repetition_penalty=1.8) == 0  # 1.111
    assert greedy([2.0, 1.1], prompt=[0], repetition_penalty=1.9) == 1  # 1.053
    assert greedy([2.0, 1.1], output=[0], repetition_penalty=1.9) == 1
    assert greedy([2.0, 1.1], prompt=[0, 0], output=[0], repetition_penalty=1.8) == 0  # once, however often
    assert greedy([-1.0, -1.5], prompt=[0], repetition_penalty=1.4) == 0
    assert greedy([-1.0, -1.5], prompt=[0], repetition_penalty=1.6) == 1


def test_presence_counts_once_and_frequency_every_time() -> None:
    assert greedy([2.0, 1.0], output=[0, 0, 0], presence_penalty=0.9) == 0
    assert greedy([2.0, 1.0], output=[0], presence_penalty=1.1) == 1
    assert greedy([2.0, 1.0], output=[0, 0], frequency_penalty=0.4) == 0
    assert greedy([2.0, 1.0], output=[0, 0, 0], frequency_penalty=0.4) == 1
    assert greedy([2.0, 1.0], output=[0], frequency_penalty=0.6, presence_penalty=0.6) == 1
    assert greedy([2.0, 1.0], prompt=[0, 0, 0], frequency_penalty=2.0, presence_penalty=2.0) == 0


def test_repetition_comes_before_presence() -> None:
    # 2 / 2 - 0.5 = 0.5 loses to 0.6; (2 - 0.5) / 2 = 0.75 would not.
    assert greedy([2.0, 0.6], output=[0], repetition_penalty=2.0, presence_penalty=0.5) == 1


def test_bias_comes_before_repetition() -> None:
    # (1 + 3) / 2 = 2 loses to 3; 1 / 2 + 3 = 3.5 would not.
    assert greedy([1.0, 3.0], prompt=[0], logit_bias={0: 3.0}, repetition_penalty=2.0) == 1


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logit_bias_forces_and_bans(temperature: float) -> None:
    def with_bias(bias: dict[int, float]) -> set[int]:
        params = SamplingParams(temperature=temperature, logit_bias=bias)
        return set(sample(LOGITS, [SamplingRow(params=params, seed=0, draw=i) for i in range(200)]))

    assert with_bias({7: 100.0}) == {7}
    assert 1 not in with_bias({1: -100.0})


def test_banned_tokens_stay_banned_under_bias() -> None:
    assert greedy([1.0, 5.0, 3.0], banned=(1,)) == 2
    assert greedy([1.0, 5.0, 3.0], banned=(1,), logit_bias={1: 100.0}) == 2


def test_logprobs_are_of_the_raw_logits() -> None:
    params = SamplingParams(temperature=0.1, top_k=2, logit_bias={1: -100.0}, logprobs=3)
    rows = [SamplingRow(params=params, seed=0, draw=0, banned_ids=(4,))]
    arrays = _native.SamplingArrays(*sampling_batch(rows).arguments())
    tokens, logprobs, top_ids, top_logprobs = _native.sample("generic", LOGITS[None], arrays)
    assert tokens.tolist() == [3]
    np.testing.assert_allclose(logprobs, np.log([0.15]), atol=1e-5)
    assert top_ids.tolist() == [[1, 4, 3]]
    np.testing.assert_allclose(top_logprobs, np.log([[0.4, 0.25, 0.15]]), atol=1e-5)
