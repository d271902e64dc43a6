"""Layers with a cache, rows of work for them, and runs of native attention over both."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tenfold import _native
from tenfold.kernels.twins import attention as twin

# Largest error against float64 attention over the same factors, for values of unit variance: float32
# arithmetic, except that some round probabilities to bfloat16.
TOLERANCE = {"generic": 1e-5, "avx2": 1e-5, "avx512": 1e-2, "amx": 1e-2}
ROUNDS = ("avx512", "amx")  # q and probabilities, to bfloat16


def seen_by(isa: str, q: npt.NDArray[np.float32], scale: float) -> npt.NDArray[np.float32]:
    """Q as the kernel multiplies it: some round it to bfloat16, once scaled for powers of 2."""
    factor = np.float32(scale) * np.float32(np.log2(np.e))
    return twin.from_bf16(twin.to_bf16(q * factor)) / factor if isa in ROUNDS else q


class Layer:
    """A layer's cache, filled with NaN or noise before use; sequences' tables are shuffled blocks of it."""

    def __init__(
        self, kv_heads: int, head_dim: int, block_size: int, lengths: list[int], seed: int = 0
    ) -> None:
        self.geometry = (kv_heads, head_dim, block_size)
        tables = [-(-length // block_size) for length in lengths]
        rng = np.random.default_rng(seed)
        elements = _native.kv_block_elements(*self.geometry)
        assert elements == twin.kv_block_elements(*self.geometry)
        self.cache = rng.integers(0, 65536, (sum(tables) + 2, elements), dtype=np.uint16)
        self.cache[rng.random(self.cache.shape) < 0.5] = 0x7FC0  # quiet NaN
        order = rng.permutation(len(self.cache)).astype(np.int32)
        self.blocks = np.split(order[: sum(tables)], np.cumsum(tables)[:-1])

    def run(
        self, isa: str, work: Work, sequences: list[twin.Sequence], tables: list[int], **more: Any
    ) -> Any:
        """One call over rows of `work`; returns (rows, heads, head_dim)."""
        _, head_dim, _ = self.geometry
        rows = work.q.shape[0]
        table = np.zeros((len(sequences), max(len(self.blocks[i]) for i in tables)), dtype=np.int32)
        for line, i in zip(table, tables, strict=True):
            line[: len(self.blocks[i])] = self.blocks[i]
        out = np.full((rows, work.q[0].size), np.nan, dtype=np.float32)
        flat = [np.ascontiguousarray(x).reshape(rows, -1) for x in (work.q, work.k, work.v)]
        options = {"scale": head_dim**-0.5, "window": 0, "threads": 1, **more}
        _native.attention(
            isa,
            self.cache,
            *self.geometry,
            *flat,
            np.array(sequences, dtype=np.int32),
            table,
            out=out,
            **options,
        )
        return out.reshape(work.q.shape)


class Work:
    """Random q, k and v of some rows."""

    def __init__(
        self, q: npt.NDArray[np.float32], k: npt.NDArray[np.float32], v: npt.NDArray[np.float32]
    ) -> None:
        self.q, self.k, self.v = q, k, v

    @classmethod
    def random(cls, rows: int, heads: int, kv_heads: int, head_dim: int, seed: int = 1) -> Work:
        rng = np.random.default_rng(seed)
        shapes = [(rows, heads, head_dim), (rows, kv_heads, head_dim), (rows, kv_heads, head_dim)]
        q, k, v = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
        return cls(2 * q, k, v)

    def rows(self, begin: int, end: int) -> Work:
        return Work(self.q[begin:end], self.k[begin:end], self.v[begin:end])

    @staticmethod
    def join(parts: list[Work]) -> Work:
        return Work(*(np.concatenate([getattr(part, name) for part in parts]) for name in "qkv"))


def solo(
    isa: str, work: Work, head_dim: int, chunk: int, block_size: int = 16, seed: int = 0, **more: Any
) -> Any:
    """The rows of one sequence from position 0, `chunk` rows a call."""
    rows = len(work.q)
    layer = Layer(work.k.shape[1], head_dim, block_size, [rows], seed)
    outs = []
    for begin in range(0, rows, chunk):
        part = work.rows(begin, min(rows, begin + chunk))
        outs.append(layer.run(isa, part, [(0, len(part.q), begin)], [0], **more))
    return np.concatenate(outs)
