"""Numpy twins of the row kernels, in float64: what each computes, by its definition."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]


def _wide(x: npt.NDArray[Any]) -> Doubles:
    wide: Doubles = x.astype(np.float64)
    return wide


def rms_norm(x: Floats, weight: Floats, eps: float) -> Doubles:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    wide = _wide(x)
    mean: Doubles = np.mean(wide * wide, axis=-1, keepdims=True)
    return wide / np.sqrt(mean + eps) * _wide(weight)


def rope(x: Floats, heads: int, rotary_dim: int, cos: Floats, sin: Floats, interleaved: bool) -> Doubles:
    """Rotates each of `heads` heads of x by angles given as cos and sin, (rotary_dim / 2,) each.

    Pairs are (2i, 2i + 1) if interleaved, else (i, i + rotary_dim / 2); elements from rotary_dim on stay.
    """
    out = _wide(x).reshape(heads, -1)
    half = rotary_dim // 2
    first = slice(0, rotary_dim, 2) if interleaved else slice(0, half)
    second = slice(1, rotary_dim, 2) if interleaved else slice(half, rotary_dim)
    a, b = out[:, first].copy(), out[:, second].copy()
    out[:, first] = a * _wide(cos) - b * _wide(sin)
    out[:, second] = b * _wide(cos) + a * _wide(sin)
    return out.reshape(-1)


def gated(kind: Literal["silu", "gelu_tanh"], gate: Floats, up: Floats) -> Doubles:
    """act(gate) * up."""
    g = _wide(gate)
    # The logistic function without overflow; 0.5 * (1 + tanh(y)) is the logistic function of 2 y.
    y = g if kind == "silu" else 2.0 * np.sqrt(2.0 / np.pi) * (g + 0.044715 * g**3)
    small = np.exp(-np.abs(y))
    logistic = np.where(y >= 0, 1.0 / (1.0 + small), small / (1.0 + small))
    return g * logistic * _wide(up)


def softcap(x: Floats, cap: float) -> Doubles:
    """cap * tanh(x / cap)."""
    return cap * np.tanh(_wide(x) / cap)
