"""Weights in every storage format, activations, and the twins' products of both."""

from __future__ import annotations

from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from tenfold import _native
from tenfold.kernels.twins import linear as twin

F32, F16, BF16, Q8_0, Q4_K = 0, 1, 30, 8, 12
FLOAT_TYPES = (F32, F16, BF16)
# Offsets of the f16 scales in a block.
SCALES = {
    2: (0,),
    3: (0, 2),
    6: (0,),
    7: (0, 2),
    8: (0,),
    10: (80, 82),
    11: (108,),
    12: (0, 2),
    13: (0, 2),
    14: (208,),
}
TYPES = (*FLOAT_TYPES, *SCALES)


def smallest_k(ggml_type: int) -> int:
    """A k that the format's blocks divide; an odd one for floats."""
    return 5 if ggml_type in FLOAT_TYPES else GGML_QUANT_SIZES[GGMLQuantizationType(ggml_type)][0]


def weight_bytes(ggml_type: int, n: int, k: int, seed: int = 0) -> np.ndarray:
    """Random valid storage (n, bytes a row): every code and sub-scale occurs, including the extremes."""
    rng = np.random.default_rng([seed, ggml_type, n, k])
    values = rng.standard_normal((n, k)).astype(np.float32)
    if ggml_type == F32:
        return values.view(np.uint8)
    if ggml_type == F16:
        return values.astype(np.float16).view(np.uint8)
    if ggml_type == BF16:
        return twin.round_to_bf16(values).view(np.uint8)
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType(ggml_type)]
    blocks = rng.integers(0, 256, (n, k // block, size), dtype=np.uint8)
    for fill, row in ((0x00, 0), (0xFF, n // 2), (0x80, n - 1)):
        blocks[row] = fill
    for offset in SCALES[ggml_type]:
        scale = rng.standard_normal((n, k // block, 1)).astype(np.float16) * np.float16(0.02)
        blocks[:, :, offset : offset + 2] = scale.view(np.uint8)
    return blocks.reshape(n, -1)


def pack(ggml_type: int, data: np.ndarray, n: int, k: int, threads: int = 1) -> Any:
    """The packed weight."""
    return _native.pack_weight(ggml_type, data.reshape(-1), n, k, threads)


# What a code of 0 is below the value 0, in steps.
OFFSETS = {2: 8, 3: 8, 6: 16, 7: 0, 8: 128, 10: 0, 11: 4, 12: 8, 13: 0, 14: 32}


def product(
    isa: str, ggml_type: int, weight: Any, x: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray:
    """The twin's product with an integer weight."""
    codes, scales, minimums, units = weight.parts()
    if isa != "amx":
        return twin.multiply(codes, scales, minimums, units, x, bias)
    return twin.multiply_amx(codes, scales, minimums, OFFSETS[ggml_type], weight.exponent, x, bias)


def activations(rows: int, k: int, seed: int = 0) -> np.ndarray:
    """Random float32 (rows, k) with outliers in one row and zeros in another."""
    x = np.random.default_rng([seed, rows, k]).standard_normal((rows, k)).astype(np.float32)
    x[rows // 2, : k // 2] *= 1000  # an outlier
    x[0, k // 2 :] = 0
    return x
