"""The reference interpreter: a Program in plain numpy, one op after the other. The slow truth.

It keeps dense keys and values for each sequence. Its results are exact to the chosen precision; other
groupings of tokens do not give the same bits, since numpy's matrix products do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from tenfold.program.op import (
    Add,
    Attention,
    Embed,
    GatedActivation,
    Linear,
    Logits,
    Op,
    RmsNorm,
    Rope,
    View,
)
from tenfold.program.program import Program

Array = npt.NDArray[Any]

_QUERY_TILE = 256  # rows of scores held at once


class Chunk(msgspec.Struct, frozen=True):
    """Consecutive tokens of one sequence to run.

    Args:
        seq_id: the sequence.
        start: position of the first token; everything cached from there on is forgotten first.
        token_ids: tokens at positions start, start + 1, ...
        want: which of their logits are returned.
    """

    seq_id: int
    start: int
    token_ids: Sequence[int]
    want: Literal["last", "all", "none"] = "last"


class ReferenceRunner:
    """Runs a Program over sequences.

    Args:
        program: what to run.
        weights: gives a checkpoint tensor, by its name there, as floating point numbers in its shape. Called
            once a weight; results are kept.
        dtype: precision of all arithmetic, float32 or float64.
        kv_bfloat16: round keys and values to bfloat16, as the engine's cache does.
    """

    def __init__(
        self,
        program: Program,
        weights: Callable[[str], Array] | Mapping[str, Array],
        *,
        dtype: npt.DTypeLike = np.float32,
        kv_bfloat16: bool = False,
    ) -> None:
        self.program = program
        self._source = weights.__getitem__ if isinstance(weights, Mapping) else weights
        self._dtype = np.dtype(dtype)
        self._kv_bfloat16 = kv_bfloat16
        self._weights: dict[str, Array] = {}
        # Keys and values of a sequence: one (2, tokens, kv_heads, head_dim) a layer.
        self._kv: dict[int, list[Array]] = {}

    def length(self, seq_id: int) -> int:
        """Tokens cached for a sequence."""
        return int(self._kv[seq_id][0].shape[1]) if seq_id in self._kv else 0

    def free(self, seq_id: int) -> None:
        """Forget a sequence; unknown ones are ignored."""
        self._kv.pop(seq_id, None)

    def forward(self, chunks: Sequence[Chunk]) -> list[Array]:
        """Run chunks of different sequences as one batch.

        Returns:
            One array a chunk: logits of shape (n, vocab_size), n being 1, all its tokens or 0, as it wants.

        Raises:
            ValueError: an empty chunk, a sequence named twice, a gap before `start`, or a token out of range.
        """
        self._check(chunks)
        for chunk in chunks:
            layers = self._kv.get(chunk.seq_id) or [
                np.zeros((2, 0, layer.num_kv_heads, layer.head_dim), self._dtype)
                for layer in self.program.kv.layers
            ]
            self._kv[chunk.seq_id] = [layer[:, : chunk.start] for layer in layers]
        step = _Step(chunks, self.program, self._dtype)
        logits: Array | None = None
        for op in self.program.ops:
            logits = self._run(op, step)
        assert logits is not None, "the last op of a checked Program gives logits"
        counts = [{"last": 1, "all": len(c.token_ids), "none": 0}[c.want] for c in chunks]
        return np.split(logits, np.cumsum(counts)[:-1])

    def _check(self, chunks: Sequence[Chunk]) -> None:
        if not chunks:
            raise ValueError("there is no chunk to run")
        seen: set[int] = set()
        for chunk in chunks:
            if chunk.seq_id in seen:
                raise ValueError(f"the sequence {chunk.seq_id} is in the batch twice")
            seen.add(chunk.seq_id)
            if len(chunk.token_ids) == 0:
                raise ValueError(f"the chunk of sequence {chunk.seq_id} has no tokens")
            if not 0 <= chunk.start <= self.length(chunk.seq_id):
                known = self.length(chunk.seq_id)
                raise ValueError(
                    f"sequence {chunk.seq_id} has {known} tokens; a chunk cannot start at {chunk.start}"
                )
            if not all(0 <= token < self.program.vocab_size for token in chunk.token_ids):
                raise ValueError(
                    f"a token of sequence {chunk.seq_id} is outside 0 to {self.program.vocab_size - 1}"
                )

    def _weight(self, name: str) -> Array:
        if name not in self._weights:
            spec = self.program.weights[name]
            array = np.asarray(self._source(spec.tensor)).astype(self._dtype)
            if array.shape != spec.shape:
                raise ValueError(
                    f"the weight {spec.tensor!r} came with shape {array.shape}, not {spec.shape}"
                )
            self._weights[name] = array + spec.offset if spec.offset else array
        return self._weights[name]

    def _run(self, op: Op, step: _Step) -> Array | None:
        match op:
            case Embed():
                step.buffers[op.out][:] = self._weight(op.weight)[step.tokens] * op.scale
            case RmsNorm():
                step.view(op.out)[:] = _rms_norm(step.view(op.x), self._weight(op.weight), op.eps)
            case Linear():
                y = self._linear(op, step.view(op.x))
                step.view(op.out)[:] = step.view(op.out) + y if op.add else y
            case Rope():
                self._rope(op, step)
            case Attention():
                self._attention(op, step)
            case GatedActivation():
                step.view(op.out)[:] = _activation(op.kind, step.view(op.gate)) * step.view(op.up)
            case Add():
                step.view(op.out)[:] += step.view(op.x)
            case Logits():
                logits = step.view(op.x)[step.wanted] @ self._weight(op.weight).T
                return logits if op.softcap is None else np.asarray(op.softcap * np.tanh(logits / op.softcap))
        return None

    def _linear(self, op: Linear, x: Array) -> Array:
        parts = []
        for weight, bias in zip(op.weights, op.biases, strict=True):
            y = x @ self._weight(weight).T
            parts.append(y if bias is None else y + self._weight(bias))
        return np.concatenate(parts, axis=1)

    def _rope(self, op: Rope, step: _Step) -> None:
        spec = self.program.ropes[op.rope]
        half = len(spec.inv_freq)
        angles = step.positions[:, None] * np.asarray(spec.inv_freq, np.float64)
        cos = (np.cos(angles) * spec.factor).astype(self._dtype)[:, None, :]
        sin = (np.sin(angles) * spec.factor).astype(self._dtype)[:, None, :]
        x = step.view(op.x).reshape(len(step.positions), -1, op.head_dim)
        if spec.interleaved:
            first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
        else:
            first, second = slice(0, half), slice(half, 2 * half)
        a, b = x[..., first].copy(), x[..., second].copy()
        x[..., first] = a * cos - b * sin
        x[..., second] = b * cos + a * sin
        step.view(op.x)[:] = x.reshape(len(step.positions), -1)

    def _attention(self, op: Attention, step: _Step) -> None:
        shape = (len(step.tokens), op.num_kv_heads, op.head_dim)
        fresh = np.stack([step.view(op.k).reshape(shape), step.view(op.v).reshape(shape)])
        if self._kv_bfloat16:
            fresh = round_bfloat16(fresh)
        q = step.view(op.q).reshape(len(step.tokens), op.num_heads, op.head_dim)
        for chunk, rows in zip(step.chunks, step.rows, strict=True):
            layers = self._kv[chunk.seq_id]
            layers[op.layer] = np.concatenate([layers[op.layer], fresh[:, rows]], axis=1)
            keys, values = layers[op.layer]
            for begin in range(rows.start, rows.stop, _QUERY_TILE):
                tile = slice(begin, min(begin + _QUERY_TILE, rows.stop))
                step.view(op.out)[tile] = _attend(op, q[tile], keys, values, step.positions[tile])


class _Step:
    """The buffers of one step, and which rows belong to which chunk."""

    def __init__(self, chunks: Sequence[Chunk], program: Program, dtype: np.dtype[Any]) -> None:
        self.chunks = chunks
        self.tokens = np.concatenate([np.asarray(c.token_ids, np.int64) for c in chunks])
        self.positions = np.concatenate([c.start + np.arange(len(c.token_ids)) for c in chunks])
        ends = np.cumsum([len(c.token_ids) for c in chunks])
        self.rows = [
            slice(int(end) - len(c.token_ids), int(end)) for c, end in zip(chunks, ends, strict=True)
        ]
        self.wanted = np.asarray(
            [
                row
                for chunk, rows in zip(chunks, self.rows, strict=True)
                for row in range(rows.start, rows.stop)
                if chunk.want == "all" or (chunk.want == "last" and row == rows.stop - 1)
            ],
            np.int64,
        )
        self.buffers = {
            name: np.full((len(self.tokens), width), np.nan, dtype) for name, width in program.buffers.items()
        }

    def view(self, view: View) -> Array:
        return self.buffers[view.buffer][:, view.start : view.start + view.width]


def _rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """Norm over each group of len(weight) columns."""
    groups = x.reshape(len(x), -1, len(weight))
    mean_square = np.mean(np.square(groups), axis=-1, keepdims=True)
    normed: Array = groups / np.sqrt(mean_square + eps) * weight
    return normed.reshape(x.shape)


def _activation(kind: Literal["silu", "gelu_tanh"], x: Array) -> Array:
    if kind == "silu":
        with np.errstate(over="ignore"):  # exp of a large number is inf, and x / inf the right 0
            return np.asarray(x / (1 + np.exp(-x)))
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(0.5 * x * (1 + np.tanh(inner)))


def _attend(op: Attention, q: Array, keys: Array, values: Array, positions: Array) -> Array:
    """Rows of q (n, num_heads, head_dim) over keys and values of positions 0, 1, ...: (n, width of out)."""
    n, total = len(q), len(keys)
    group = op.num_heads // op.num_kv_heads
    # Query head h reads key-value head h // group.
    grouped = q.reshape(n, op.num_kv_heads, group, op.head_dim).transpose(1, 2, 0, 3)
    scores = grouped @ keys.transpose(1, 2, 0)[:, None] * op.scale
    key_positions = np.arange(total)
    hidden = key_positions > positions[:, None]
    if op.window is not None:
        hidden |= key_positions <= positions[:, None] - op.window
    scores[..., hidden] = -np.inf
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    scores /= scores.sum(axis=-1, keepdims=True)
    result: Array = (scores @ values.transpose(1, 0, 2)[:, None]).transpose(2, 0, 1, 3).reshape(n, -1)
    return result


def round_bfloat16(x: Array) -> Array:
    """Round to the nearest bfloat16, ties to even; finite values, same dtype."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded: Array = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32).astype(x.dtype)
