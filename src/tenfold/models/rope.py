"""Rotary inverse frequencies: plain, linear, llama3 and yarn scaling, and factors from a tensor.

Everything is computed in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tenfold.checkpoints.checkpoint import RopeScaling
from tenfold.program.op import RopeSpec


def rope_spec(
    theta: float,
    rotary_dim: int,
    *,
    context_length: int,
    scaling: RopeScaling | None = None,
    factors: Sequence[float] | None = None,
    interleaved: bool = False,
) -> RopeSpec:
    """The rotary table of some layers.

    Args:
        theta: the base; the frequency of pair i is theta ** (-2 i / rotary_dim).
        rotary_dim: rotated elements a head; even.
        context_length: stands in for an original context that `scaling` does not state.
        scaling: how frequencies are stretched.
        factors: divide the frequencies, one a pair (the `rope_freqs.weight` of GGUF).
        interleaved: rotate adjacent pairs.

    Raises:
        ValueError: an odd rotary_dim, a theta that is not above 1, or a wrong number of factors.
    """
    if rotary_dim < 2 or rotary_dim % 2:
        raise ValueError(f"the rotary width {rotary_dim} is not a positive even number")
    if not (math.isfinite(theta) and theta > 1):
        raise ValueError(f"the rotary base {theta} is not a number above 1")
    frequencies = [theta ** (-2 * i / rotary_dim) for i in range(rotary_dim // 2)]
    attention_factor = 1.0
    if scaling is not None:
        original = scaling.original_context or context_length
        if scaling.kind == "linear":
            frequencies = [frequency / scaling.factor for frequency in frequencies]
        elif scaling.kind == "llama3":
            frequencies = [_llama3(frequency, scaling, original) for frequency in frequencies]
        else:
            frequencies = _yarn(frequencies, scaling, theta, rotary_dim, original)
            attention_factor = _yarn_attention_factor(scaling)
    if factors is not None:
        if len(factors) != len(frequencies):
            raise ValueError(f"{len(factors)} rotary factors were given for {len(frequencies)} frequencies")
        frequencies = [frequency / factor for frequency, factor in zip(frequencies, factors, strict=True)]
    return RopeSpec(inv_freq=tuple(frequencies), factor=attention_factor, interleaved=interleaved)


def _llama3(frequency: float, scaling: RopeScaling, original: int) -> float:
    """Llama 3.1: slow waves are stretched, fast ones kept, those between the borders blended.

    Borders and blend are in turns that a wave makes over the original context.
    """
    turns = original * frequency / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    if turns < low:
        return frequency / scaling.factor
    if turns > high:
        return frequency
    keep = (turns - low) / (high - low) if high > low else 1.0
    return (1 - keep) * frequency / scaling.factor + keep * frequency


def _yarn(
    frequencies: Sequence[float], scaling: RopeScaling, theta: float, rotary_dim: int, original: int
) -> list[float]:
    """YaRN (arXiv:2309.00071): a ramp over pairs between the borders beta_fast and beta_slow, in turns."""

    def pair_with_turns(turns: float) -> float:
        return rotary_dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = float(max(math.floor(pair_with_turns(scaling.beta_fast)), 0))
    high = float(min(math.ceil(pair_with_turns(scaling.beta_slow)), rotary_dim - 1))
    if high == low:
        high += 0.001  # a step instead of a division by zero

    def stretched(i: int) -> float:
        return min(max((i - low) / (high - low), 0.0), 1.0)

    return [
        (frequency / scaling.factor) * stretched(i) + frequency * (1 - stretched(i))
        for i, frequency in enumerate(frequencies)
    ]


def _yarn_attention_factor(scaling: RopeScaling) -> float:
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    return 1.0 if scaling.factor <= 1 else 0.1 * math.log(scaling.factor) + 1.0
