"""Numpy twins of the attention kernels: the cache's layout spelled out, and attention by its definition.

The cache of a layer is uint16 (bfloat16 bits) of shape (blocks, elements a block). A block holds, for each KV
head, K as [block_size / 16][head_dim / 2][16 tokens][2 dims], then V as
[block_size / 2 token pairs][head_dim][2 tokens].
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Bits: TypeAlias = npt.NDArray[np.uint16]
Sequence: TypeAlias = tuple[int, int, int]

TILE = 16


def to_bf16(x: Floats) -> Bits:
    """Bfloat16 bits by round to nearest even; NaN stays a quiet NaN, denormals become zero."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    rounded = np.where((bits & 0x7F800000) == 0, (bits >> 16) & 0x8000, rounded)
    return np.where(np.isnan(x), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def from_bf16(bits: Bits) -> Floats:
    """The float32 values of bfloat16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def kv_block_elements(num_kv_heads: int, head_dim: int, block_size: int) -> int:
    """Bfloat16 elements of one block of one layer (K and V)."""
    return 2 * num_kv_heads * head_dim * block_size


class PagedCache:
    """Reads and writes positions of a layer's cache through a block table.

    Args:
        cache: uint16 of shape (blocks, kv_block_elements); written in place.
        num_kv_heads, head_dim, block_size: its geometry; block_size a multiple of 16.
    """

    def __init__(self, cache: Bits, num_kv_heads: int, head_dim: int, block_size: int) -> None:
        heads = cache.reshape(cache.shape[0], num_kv_heads, 2, block_size * head_dim)
        tiles = block_size // TILE
        self.block_size = block_size
        self._k = heads[:, :, 0].reshape(-1, num_kv_heads, tiles, head_dim // 2, TILE, 2)
        self._v = heads[:, :, 1].reshape(-1, num_kv_heads, block_size // 2, head_dim, 2)
        if not (np.shares_memory(self._k, cache) and np.shares_memory(self._v, cache)):
            raise ValueError("PagedCache needs a contiguous cache, so that writes reach it.")

    def write(self, blocks: npt.NDArray[np.int32], position: int, k: Floats, v: Floats) -> None:
        """Stores k and v, (num_kv_heads, head_dim) float32, as `position`."""
        block, slot = int(blocks[position // self.block_size]), position % self.block_size
        heads, head_dim = k.shape
        self._k[block, :, slot // TILE, :, slot % TILE] = to_bf16(k).reshape(heads, head_dim // 2, 2)
        self._v[block, :, slot // 2, :, slot % 2] = to_bf16(v)

    def read(self, blocks: npt.NDArray[np.int32], begin: int, end: int) -> tuple[Floats, Floats]:
        """K and V of positions [begin, end): two float32 arrays (end - begin, num_kv_heads, head_dim)."""
        at = np.arange(begin, end)
        block, slot = blocks[at // self.block_size], at % self.block_size
        k = self._k[block, :, slot // TILE, :, slot % TILE]
        v = self._v[block, :, slot // 2, :, slot % 2]
        return from_bf16(k.reshape(*k.shape[:2], -1)), from_bf16(v)


def attention(
    cache: PagedCache,
    q: Floats,
    k: Floats,
    v: Floats,
    sequences: list[Sequence],
    blocks: list[npt.NDArray[np.int32]],
    scale: float,
    window: int = 0,
) -> npt.NDArray[np.float64]:
    """Writes k and v to the cache, then attends in float64.

    Args:
        q: (rows, num_heads, head_dim) float32.
        k, v: (rows, num_kv_heads, head_dim) float32.
        sequences: (row, count, start): step rows [row, row + count) are positions [start, start + count).
        blocks: a block table a sequence.
        scale: of scores q . k.
        window: a row at position p sees max(0, p - window + 1) to p; 0 is no window.

    Returns:
        (rows, num_heads, head_dim) float64; rows of no sequence are 0.
    """
    out = np.zeros(q.shape, dtype=np.float64)
    group = q.shape[1] // k.shape[1]
    for (row, count, start), table in zip(sequences, blocks, strict=True):
        for i in range(count):
            cache.write(table, start + i, k[row + i], v[row + i])
        for i in range(count):
            position = start + i
            k_bf16, v_bf16 = cache.read(table, max(0, position - window + 1) if window else 0, position + 1)
            keys, values = k_bf16.astype(np.float64), v_bf16.astype(np.float64)
            for head in range(q.shape[1]):
                score = keys[:, head // group] @ q[row + i, head].astype(np.float64) * scale
                weight = np.exp(score - score.max())
                out[row + i, head] = weight @ values[:, head // group] / weight.sum()
    return out
