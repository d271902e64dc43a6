"""Scoring given tokens: the native kernels against their numpy twin, and against sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold import _native
from tenfold.core.sampling_params import SamplingParams
from tenfold.kernels.twins import sampling as twin
from tenfold.sampling.batch import SamplingRow, sampling_batch

ISAS = _native.supported_isas()


def random_logits(rng: np.random.Generator, rows: int, vocab: int, spread: float) -> np.ndarray:
    """Distinct, evenly spaced values in random order, so that twins do not differ over near-equals."""
    return np.stack([rng.permutation(np.linspace(-spread, spread, vocab)) for _ in range(rows)]).astype(
        np.float32
    )


def assert_same(got: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    np.testing.assert_allclose(got[0], expected[0], atol=1e-4)
    np.testing.assert_array_equal(got[1], expected[1])
    np.testing.assert_array_equal(got[2], expected[2])
    np.testing.assert_allclose(got[3], expected[3], atol=1e-4)


@pytest.mark.parametrize("isa", ISAS)
@given(
    vocab=st.sampled_from([1, 2, 16, 63, 65, 511, 513, 1500]),
    rows=st.integers(0, 5),
    most=st.integers(0, 20),
    spread=st.sampled_from([0.0, 0.5, 4.0, 60.0]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=80, deadline=None)
def test_scores_match_the_twin(isa: str, vocab: int, rows: int, most: int, spread: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = random_logits(rng, rows, vocab, spread) if rows else np.empty((0, vocab), np.float32)
    targets = rng.integers(0, vocab, rows).astype(np.int32)
    got = _native.score(isa, logits, targets, most)
    assert_same(got, twin.score(logits, targets, most))
    generic = _native.score("generic", logits, targets, most)
    assert [part.tobytes() for part in got] == [part.tobytes() for part in generic]


@pytest.mark.parametrize("isa", ISAS)
def test_a_score_is_the_log_probability_of_a_sampled_token(isa: str) -> None:
    rng = np.random.default_rng(5)
    logits = (rng.normal(size=(9, 3000)) * 4).astype(np.float32)
    params = SamplingParams(temperature=1.3, logprobs=4)
    batch = sampling_batch([SamplingRow(params=params, seed=1, draw=i) for i in range(9)])
    tokens, logprobs, top_ids, top_logprobs = _native.sample(
        isa, logits, _native.SamplingArrays(*batch.arguments())
    )
    scored = _native.score(isa, logits, tokens, 4)
    assert scored[0].tobytes() == logprobs.tobytes()
    assert scored[2].tobytes() == top_ids.tobytes()
    assert scored[3].tobytes() == top_logprobs.tobytes()


@pytest.mark.parametrize("isa", ISAS)
def test_values_that_are_no_numbers(isa: str) -> None:
    inf, nan = np.inf, np.nan
    logits = np.array(
        [[nan, 1.0, -inf, 2.0], [0.0, 0.0, inf, nan], [-inf, nan, -inf, nan], [1.0, 1.0, 1.0, 0.0]],
        np.float32,
    )
    targets = np.array([0, 2, 1, 1], np.int32)
    got = _native.score(isa, logits, targets, 3)
    assert_same(got, twin.score(logits, targets, 3))
    assert got[1].tolist() == [4, 1, 0, 3]
    assert np.isfinite(got[0]).all()


def test_what_does_not_fit_is_refused() -> None:
    logits = np.zeros((2, 4), np.float32)
    for targets, most in (([0], 1), ([0, 4], 1), ([-1, 0], 1), ([0, 0], -1)):
        with pytest.raises(ValueError):
            _native.score("generic", logits, np.array(targets, np.int32), most)
