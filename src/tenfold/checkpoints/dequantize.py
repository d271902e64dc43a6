"""Stored weights to float32, in numpy: the slow truth that packed kernels are compared with.

Block layouts: ggml's block_q* structs, https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tenfold.checkpoints.checkpoint import Tensor, TensorType
from tenfold.checkpoints.storage import BLOCKS

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

_CHUNK_BYTES = 1 << 22
_LOW, _FOUR = np.uint8(15), np.uint8(4)
_SHIFTS = np.array([0, 2, 4, 6], np.uint8)


def dequantize(tensor: Tensor) -> Floats:
    """The tensor's elements as float32, of shape `tensor.shape`.

    Works through the data in chunks, so that intermediates stay small. NaN and infinity pass through.
    """
    elements, size = BLOCKS[tensor.type]
    blocks = tensor.data.reshape(-1, size)
    out = np.empty((blocks.shape[0], elements), np.float32)
    unpack = _UNPACK[tensor.type]
    step = max(1, _CHUNK_BYTES // size)
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, blocks.shape[0], step):
            out[start : start + step] = unpack(blocks[start : start + step])
    return out.reshape(tensor.shape)


def _half(columns: Bytes) -> Floats:
    """float16 columns as float32."""
    halves: npt.NDArray[Any] = np.ascontiguousarray(columns).view("<f2")
    return halves.astype(np.float32)


def _nibbles(columns: Bytes) -> Bytes:
    """All low halves of the bytes, then all high halves."""
    return np.concatenate([columns & _LOW, columns >> _FOUR], axis=1)


def _f32(blocks: Bytes) -> Floats:
    floats: npt.NDArray[Any] = np.ascontiguousarray(blocks).view("<f4")
    return floats


def _bf16(blocks: Bytes) -> Floats:
    halves: npt.NDArray[Any] = np.ascontiguousarray(blocks).view("<u2")
    return (halves.astype(np.uint32) << 16).view(np.float32)


def _q4_0(blocks: Bytes) -> Floats:
    levels: Floats = _nibbles(blocks[:, 2:]).astype(np.float32) - np.float32(8)
    return levels * _half(blocks[:, :2])


def _q4_1(blocks: Bytes) -> Floats:
    return _nibbles(blocks[:, 4:]).astype(np.float32) * _half(blocks[:, :2]) + _half(blocks[:, 2:4])


def _fifth_bits(columns: Bytes) -> Bytes:
    """Bit i of the 32-bit word becomes 16 in column i."""
    bits: Bytes = np.unpackbits(columns, axis=1, bitorder="little") << _FOUR
    return bits


def _q5_0(blocks: Bytes) -> Floats:
    levels = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    signed: Floats = levels.astype(np.float32) - np.float32(16)
    return signed * _half(blocks[:, :2])


def _q5_1(blocks: Bytes) -> Floats:
    levels = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return levels.astype(np.float32) * _half(blocks[:, :2]) + _half(blocks[:, 2:4])


def _q8_0(blocks: Bytes) -> Floats:
    return blocks[:, 2:].view(np.int8).astype(np.float32) * _half(blocks[:, :2])


def _two_bits(columns: Bytes) -> Bytes:
    """2-bit fields of each 32 bytes: the lowest of all 32, then the next ones, ...; (n, 4 * width)."""
    rows = columns.reshape(columns.shape[0], -1, 1, 32)
    fields: Bytes = (rows >> _SHIFTS[:, None]) & np.uint8(3)
    return fields.reshape(columns.shape[0], -1)


def _scaled(levels: npt.NDArray[Any], scales: Floats) -> Floats:
    """Levels (n, 256) times scales (n, groups), kept as (n, groups, 256 / groups)."""
    scaled: Floats = levels.reshape(*scales.shape, -1).astype(np.float32) * scales[:, :, None]
    return scaled


def _q2_k(blocks: Bytes) -> Floats:
    codes = blocks[:, :16]
    scales = _half(blocks[:, 80:82]) * (codes & _LOW)
    minima = _half(blocks[:, 82:84]) * (codes >> _FOUR)
    values: Floats = _scaled(_two_bits(blocks[:, 16:80]), scales) - minima[:, :, None]
    return values.reshape(-1, 256)


def _q3_k(blocks: Bytes) -> Floats:
    packed = blocks[:, 96:108]
    high = ((packed[:, None, 8:] >> _SHIFTS[:, None]) & 3).reshape(-1, 16)
    codes = (_nibbles(packed[:, :8]) | (high << _FOUR)).astype(np.float32) - np.float32(32)
    # Bit j of mask byte i belongs to element 32 * j + i; where it is clear, 4 is taken off.
    mask = np.unpackbits(blocks[:, :32, None], axis=2, bitorder="little").transpose(0, 2, 1).reshape(-1, 256)
    levels = (_two_bits(blocks[:, 32:96]) | (mask << 2)).astype(np.float32) - np.float32(4)
    return _scaled(levels, _half(blocks[:, 108:110]) * codes).reshape(-1, 256)


def _k_scales(packed: Bytes) -> tuple[Floats, Floats]:
    """8 scales and 8 minima of 6 bits from 12 bytes: four of each whole, the rest in halves and top bits."""
    first, second, halves = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([first & 63, (halves & 15) | ((first >> 2) & 48)], axis=1)
    minima = np.concatenate([second & 63, (halves >> 4) | ((second >> 2) & 48)], axis=1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _k_groups(columns: Bytes) -> Bytes:
    """Nibbles of each 32 bytes: 32 low ones, then 32 high ones; (n, 256)."""
    rows = columns.reshape(-1, 4, 1, 32)
    return np.concatenate([rows & _LOW, rows >> _FOUR], axis=2).reshape(-1, 256)


def _q45_k(blocks: Bytes, levels: Bytes) -> Floats:
    scales, minima = _k_scales(blocks[:, 4:16])
    scaled = _scaled(levels, _half(blocks[:, :2]) * scales)
    return (scaled - (_half(blocks[:, 2:4]) * minima)[:, :, None]).reshape(-1, 256)


def _q4_k(blocks: Bytes) -> Floats:
    return _q45_k(blocks, _k_groups(blocks[:, 16:]))


def _q5_k(blocks: Bytes) -> Floats:
    bits = (
        np.unpackbits(blocks[:, 16:48, None], axis=2, bitorder="little").transpose(0, 2, 1).reshape(-1, 256)
    )
    return _q45_k(blocks, _k_groups(blocks[:, 48:]) | (bits << _FOUR))


def _q6_k(blocks: Bytes) -> Floats:
    rows = blocks[:, :128].reshape(-1, 2, 1, 64)
    low = np.concatenate([rows & _LOW, rows >> _FOUR], axis=2).reshape(-1, 256)
    levels = (low | (_two_bits(blocks[:, 128:192]) << _FOUR)).astype(np.float32) - np.float32(32)
    scales = _half(blocks[:, 208:210]) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    return _scaled(levels, scales).reshape(-1, 256)


_UNPACK: dict[TensorType, Callable[[Bytes], Floats]] = {
    TensorType.F32: _f32,
    TensorType.F16: _half,
    TensorType.BF16: _bf16,
    TensorType.Q4_0: _q4_0,
    TensorType.Q4_1: _q4_1,
    TensorType.Q5_0: _q5_0,
    TensorType.Q5_1: _q5_1,
    TensorType.Q8_0: _q8_0,
    TensorType.Q2_K: _q2_k,
    TensorType.Q3_K: _q3_k,
    TensorType.Q4_K: _q4_k,
    TensorType.Q5_K: _q5_k,
    TensorType.Q6_K: _q6_k,
}
