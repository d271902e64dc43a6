"""Rotary frequencies against values worked out by hand and properties of each scaling."""

from __future__ import annotations

import math

import pytest

from tenfold.checkpoints.checkpoint import RopeScaling
from tenfold.models.rope import rope_spec

PLAIN = rope_spec(10_000.0, 8, context_length=512)


def test_plain_frequencies():
    assert PLAIN.inv_freq == pytest.approx((1.0, 0.1, 0.01, 0.001))
    assert PLAIN.factor == 1.0
    assert not PLAIN.interleaved
    assert rope_spec(10_000.0, 8, context_length=512, interleaved=True).interleaved


def test_linear_divides_all():
    spec = rope_spec(10_000.0, 8, context_length=512, scaling=RopeScaling(kind="linear", factor=4.0))
    assert spec.inv_freq == pytest.approx((0.25, 0.025, 0.0025, 0.00025))


def test_llama3_keeps_fast_stretches_slow_and_blends_between():
    scaling = RopeScaling(
        kind="llama3", factor=8.0, original_context=1000, low_freq_factor=1.0, high_freq_factor=4.0
    )
    spec = rope_spec(10_000.0, 8, context_length=9999, scaling=scaling)
    # Turns over 1000 positions: 159, 15.9, 1.59 and 0.159; borders at 4 and 1.
    keep = (1000 * 0.01 / (2 * math.pi) - 1) / 3
    blended = keep * 0.01 + (1 - keep) * 0.01 / 8
    assert spec.inv_freq == pytest.approx((1.0, 0.1, blended, 0.001 / 8))


def test_yarn_ramps_between_its_borders():
    scaling = RopeScaling(kind="yarn", factor=4.0, original_context=1024, beta_fast=8.0, beta_slow=1.5)
    plain = rope_spec(10_000.0, 32, context_length=2048).inv_freq
    spec = rope_spec(10_000.0, 32, context_length=2048, scaling=scaling)
    # 32 ln(1024 / (2 pi 8)) / (2 ln 10000) = 5.2 and, with 1.5, 8.1: the ramp goes from pair 5 to pair 9.
    ratios = [a / b for a, b in zip(spec.inv_freq, plain, strict=True)]
    assert ratios == pytest.approx([1.0] * 6 + [1 - 0.75 / 4, 1 - 0.75 / 2, 1 - 0.75 * 3 / 4] + [0.25] * 7)
    assert spec.factor == pytest.approx(0.1 * math.log(4) + 1)


def test_yarn_takes_its_attention_factor_and_the_context_for_an_unstated_original():
    stated = RopeScaling(kind="yarn", factor=4.0, original_context=1024, attention_factor=1.25)
    unstated = RopeScaling(kind="yarn", factor=4.0)
    assert rope_spec(10_000.0, 32, context_length=7, scaling=stated).factor == 1.25
    a = rope_spec(10_000.0, 32, context_length=1024, scaling=unstated)
    assert a.inv_freq == rope_spec(10_000.0, 32, context_length=7, scaling=stated).inv_freq


def test_factors_divide_pair_by_pair():
    spec = rope_spec(10_000.0, 8, context_length=512, factors=[1.0, 2.0, 4.0, 8.0])
    assert spec.inv_freq == pytest.approx((1.0, 0.05, 0.0025, 0.000125))


@pytest.mark.parametrize(
    ("theta", "dim", "factors", "message"),
    [
        (10_000.0, 7, None, "not a positive even number"),
        (10_000.0, 0, None, "not a positive even number"),
        (0.0, 8, None, "not a number above 1"),
        (float("nan"), 8, None, "not a number above 1"),
        (10_000.0, 8, [1.0], "1 rotary factors were given for 4 frequencies"),
    ],
)
def test_values_that_give_no_table_are_refused(theta, dim, factors, message):
    with pytest.raises(ValueError, match=message):
        rope_spec(theta, dim, context_length=512, factors=factors)
