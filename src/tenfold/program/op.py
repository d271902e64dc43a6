"""The ops of a Program. Each is a frozen record over named buffers and weights; shapes are (tokens, width).

Buffers hold float32 rows, one a token of the step. `View` names some columns of a buffer, so that packed
projections (QKV, gate and up) need no copies.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class View(msgspec.Struct, frozen=True):
    """Columns start to start + width of a buffer."""

    buffer: str
    start: int
    width: int


class RopeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A rotary table: inverse frequencies and a factor on cos and sin.

    Args:
        inv_freq: one a rotated pair, radians a position; len is rotary_dim / 2.
        factor: multiplies cos and sin (yarn's attention factor), usually 1.
        interleaved: rotate adjacent pairs (x0, x1); otherwise pairs are (x_i, x_{i + rotary_dim / 2}).
    """

    inv_freq: tuple[float, ...]
    factor: float = 1.0
    interleaved: bool = False


class Embed(msgspec.Struct, frozen=True, tag=True):
    """out = weight[token] * scale."""

    out: str
    weight: str
    scale: float = 1.0


class RmsNorm(msgspec.Struct, frozen=True, tag=True):
    """out = x / sqrt(mean(x^2) + eps) * weight, over the view or, with head_dim, over each head of it."""

    x: View
    out: View
    weight: str
    eps: float
    head_dim: int | None = None


class Linear(msgspec.Struct, frozen=True, tag=True):
    """out = concat over i of (x @ weights[i].T + biases[i]); `add` adds to what is in out instead."""

    x: View
    out: View
    weights: tuple[str, ...]
    biases: tuple[str | None, ...]
    add: bool = False


class Rope(msgspec.Struct, frozen=True, tag=True):
    """Rotate each head of the view in place by the token's position; `rope` names a table of the Program."""

    x: View
    head_dim: int
    rope: str


class Attention(msgspec.Struct, frozen=True, tag=True):
    """Write K and V to the layer's KV cache, then causal grouped-query attention of Q over it.

    Token at position p sees positions max(0, p - window + 1) to p. Scores are q.k * scale.
    """

    q: View
    k: View
    v: View
    out: View
    layer: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    window: int | None = None


class GatedActivation(msgspec.Struct, frozen=True, tag=True):
    """out = act(gate) * up."""

    gate: View
    up: View
    out: View
    kind: Literal["silu", "gelu_tanh"]


class Add(msgspec.Struct, frozen=True, tag=True):
    """out += x."""

    x: View
    out: View


class Logits(msgspec.Struct, frozen=True, tag=True):
    """For tokens that are sampled: logits = x @ weight.T, optionally softcap * tanh(logits / softcap)."""

    x: View
    weight: str
    softcap: float | None = None


Op: TypeAlias = Embed | RmsNorm | Linear | Rope | Attention | GatedActivation | Add | Logits


def reads(op: Op) -> tuple[View, ...]:
    """The views that an op reads; what it reads the KV cache for is not among them."""
    match op:
        case Embed():
            return ()
        case Linear():
            return (op.x, op.out) if op.add else (op.x,)
        case Attention():
            return op.q, op.k, op.v
        case GatedActivation():
            return op.gate, op.up
        case Add():
            return op.x, op.out
        case RmsNorm() | Rope() | Logits():
            return (op.x,)
