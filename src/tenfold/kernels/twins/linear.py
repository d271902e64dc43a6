"""Twin of the native linear kernels (native/src/linear.hpp): the same operations in the same order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GROUP = 32
REFINE_ABOVE = np.float32(1.75)
LOW_STEPS = np.float32(254)

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]


class QuantizedRows(NamedTuple):
    """Rows in int8: x = scale * q, and scale * (q + low / 254) in refined groups of 32 columns.

    q and low are int8 (rows, k rounded up to 32); scale float32, sum and low_sum int32 and refined uint8 are
    (rows, groups). low and low_sum are 0 where a group is not refined.
    """

    q: NDArray[np.int8]
    scale: Float32
    sum: Int32
    refined: NDArray[np.uint8]
    low: NDArray[np.int8]
    low_sum: Int32


def quantize_rows(x: Float32) -> QuantizedRows:
    """Quantize float32 rows (rows, k).

    scale = max|x| / 127 and q = round-half-even(x / scale); a group with a NaN or an infinity has q = 0 and
    scale = NaN. Groups whose scale is above 1.75 times the row's mean scale are refined.
    """
    rows, k = x.shape
    groups = -(-k // GROUP)
    padded = np.zeros((rows, groups * GROUP), np.float32)
    padded[:, :k] = x
    cells = padded.reshape(rows, groups, GROUP)
    finite = np.all(np.isfinite(cells), axis=2, keepdims=True)
    cells = np.where(finite, cells, np.float32(0))
    scale = (np.abs(cells).max(axis=2) / np.float32(127)).astype(np.float32)
    divisor = np.where(scale > 0, scale, np.float32(1))[..., None]
    quotient = np.where(scale[..., None] > 0, cells / divisor, np.float32(0))
    q = np.rint(np.clip(quotient, -127, 127)).astype(np.int8)
    scale = np.where(finite[..., 0], scale, np.float32("nan"))
    total = np.zeros(rows, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for group in range(groups):  # in order, as the kernels sum
            total += scale[:, group]
    refined = scale > (REFINE_ABOVE * (total / np.float32(groups)))[:, None]
    left = (quotient - q.astype(np.float32)) * LOW_STEPS
    low = np.rint(np.clip(np.where(refined[..., None], left, np.float32(0)), -127, 127)).astype(np.int8)
    return QuantizedRows(
        q.reshape(rows, -1),
        scale,
        q.sum(axis=2, dtype=np.int32),
        refined.astype(np.uint8),
        low.reshape(rows, -1),
        low.sum(axis=2, dtype=np.int32),
    )


def round_to_bf16(x: Float32) -> NDArray[np.uint16]:
    """Bits of x in bfloat16: nearest even, NaN stays a quiet NaN, denormals become zero of their sign."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    top = bits >> np.uint32(16)
    rounded = (bits.astype(np.uint64) + 0x7FFF + (top & np.uint32(1))) >> 16
    magnitude = bits & np.uint32(0x7FFFFFFF)
    rounded = np.where(magnitude > 0x7F800000, top | np.uint32(0x40), rounded)
    rounded = np.where(magnitude < 0x00800000, top & np.uint32(0x8000), rounded)
    return np.asarray(rounded, np.uint16)


def fused_multiply_add(a: Float32, b: Float32, c: Float32) -> Float32:
    """float32 a * b + c, rounded once.

    The product of two float32 is exact in float64. Its sum with c is rounded to odd in float64, which leaves
    the second rounding, to float32, as if it were the only one.
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = np.broadcast_to(c, product.shape).astype(np.float64)
    total = product + addend
    other = total - product
    error = (product - (total - other)) + (addend - other)
    even = (total.view(np.int64) & 1) == 0
    nudged = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((error != 0) & even, nudged, total).astype(np.float32)


def multiply(
    codes: Int32, scales: Float32, minimums: Float32 | None, x: Float32, bias: Float32 | None = None
) -> Float32:
    """Product of rows and an integer weight, bit for bit as the native kernels make it.

    Args:
        codes: int32 (n, k); scales and minimums: float32 (n, k / s) with s = 32 or 16. A weight's value is
            scale * code + minimum. As `PackedWeight.parts()` gives them.
        x: float32 (rows, k). bias: float32 (n,).

    Returns:
        float32 (rows, n).
    """
    rows = quantize_rows(x)
    n, k = codes.shape
    sub = k // scales.shape[1]
    y = np.zeros((len(x), n), np.float32)
    for g in range(k // GROUP):
        parts = [(rows.q, rows.scale[:, g, None])]
        if rows.refined[:, g].any():
            low_scale = rows.scale[:, g, None] / LOW_STEPS
            parts.append((rows.low, np.where(rows.refined[:, g, None] > 0, low_scale, np.float32(0))))
        for q, group_scale in parts:
            for s in range(g * GROUP // sub, (g + 1) * GROUP // sub):
                taken = q[:, s * sub : (s + 1) * sub].astype(np.int32)
                dot = (taken @ codes[:, s * sub : (s + 1) * sub].T).astype(np.float32)
                y = fused_multiply_add(dot, scales[None, :, s] * group_scale, y)
                if minimums is not None:
                    weighted = group_scale * taken.sum(axis=1, keepdims=True).astype(np.float32)
                    y = fused_multiply_add(np.broadcast_to(minimums[None, :, s], y.shape), weighted, y)
    return y if bias is None else y + bias


def multiply_bf16(weight: Float32, x: Float32, bias: Float32 | None = None) -> Float32:
    """Product of rows and a bf16 weight, bit for bit as the generic and AVX2 kernels make it.

    AVX-512 sums pairs of k in its own instruction and differs from this in the last bits.

    Args:
        weight: float32 (n, k) of bfloat16 values. x: float32 (rows, k). bias: float32 (n,).

    Returns:
        float32 (rows, n).
    """
    rounded = (round_to_bf16(x).astype(np.uint32) << np.uint32(16)).view(np.float32)
    y = np.zeros((len(x), len(weight)), np.float32)
    for i in range(weight.shape[1]):
        y = fused_multiply_add(np.broadcast_to(weight[None, :, i], y.shape), rounded[:, i, None], y)
    return y if bias is None else y + bias
