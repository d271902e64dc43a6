"""Twin of the native linear kernels (native/src/linear.hpp): the same operations in the same order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GROUP = 32
PAIR = 64
BLOCK = 256
OUTLIER_ABOVE = np.float32(1.5)
LEVELS = np.float32(31)
LEAST = np.float32(1e-30)

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]


class QuantizedRows(NamedTuple):
    """Rows in int8: x = scale * q + outliers.

    q is int8 (rows, k rounded up to 64); scale float32 and sum int32 (of q) are (rows, groups of 32), unit
    float32 (rows, blocks of 256): a scale is 1 to 31 of its block's. outliers float32 (rows, k) are 0 but where an
    element was cut off.
    """

    q: NDArray[np.int8]
    scale: Float32
    sum: Int32
    unit: Float32
    outliers: Float32


def quantize_rows(x: Float32) -> QuantizedRows:
    """Quantize float32 rows (rows, k).

    Elements above a bound are outliers; what a group's scale is made for ends at the bound. Scales are 1 to 31
    units of their block of 256, and q = round-half-even(x / scale). A block with a NaN or an infinity has q = 0
    and a scale of NaN.
    """
    return QuantizedRows(*(np.stack(part) for part in zip(*(_quantize_row(row) for row in x), strict=True)))


def outlier_bound(cells: Float32, most: Float32, k: int) -> np.float32:
    """The bound of a row: 1.5 times the mean largest |x| of a group, or more if too many elements pass that."""
    lanes = np.zeros(8, np.float32)
    groups = -(-k // GROUP)
    for group in range(groups):  # in the kernels' order
        lanes[group % 8] += most[group]
    total = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))
    bound: np.float32 = np.maximum(OUTLIER_ABOVE * np.float32(total / np.float32(groups)), LEAST)
    while np.count_nonzero(np.abs(cells) > bound) > k // PAIR + 2:
        bound *= np.float32(1.25)
    return bound


def _quantize_row(
    x: Float32,
) -> tuple[NDArray[np.int8], Float32, Int32, Float32, Float32]:
    k = len(x)
    groups = -(-k // PAIR) * 2
    cells = np.zeros((groups, GROUP), np.float32)
    cells.reshape(-1)[:k] = x
    most = np.where(np.isnan(cells).any(axis=1), np.float32("nan"), np.abs(cells).max(axis=1))
    with np.errstate(over="ignore", invalid="ignore"):
        bound = outlier_bound(cells, most, k)
        q = np.zeros((groups, GROUP), np.int8)
        scale = np.zeros(groups, np.float32)
        unit = np.zeros(-(-k // BLOCK), np.float32)
        for number, first in enumerate(range(0, groups, BLOCK // GROUP)):
            block = slice(first, min(groups, first + BLOCK // GROUP))
            size = np.where(bound < most[block], bound, most[block])
            if not np.isfinite(most[block]).all():
                scale[block] = unit[number] = np.float32("nan")
                continue
            top = size.max()
            if top < LEAST:
                continue
            level = np.clip(np.ceil(size / top * LEVELS), 1, LEVELS)
            unit[number] = top / np.float32(127 * 31)
            scale[block] = unit[number] * level
            inverse = (np.float32(1) / scale[block])[:, None]
            q[block] = np.rint(np.clip(cells[block] * inverse, -127, 127)).astype(np.int8)
        beyond = cells - scale[:, None] * q.astype(np.float32)
        outliers = np.where(np.abs(cells) > bound, beyond, np.float32(0)).reshape(-1)[:k]
    return q.reshape(-1), scale, q.sum(axis=1, dtype=np.int32), unit, outliers


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
    codes: Int32,
    scales: Float32,
    minimums: Float32 | None,
    units: Float32 | None,
    x: Float32,
    bias: Float32 | None = None,
) -> Float32:
    """Product of rows and an integer weight, bit for bit as the native kernels make it.

    Args:
        codes: int32 (n, k); scales and minimums: float32 (n, k / s) with s = 32 or 16. A weight's value is
            scale * code + minimum. units: float32 (n, blocks of 256) of 4-bit formats. As
            `PackedWeight.parts()` gives them.
        x: float32 (rows, k). bias: float32 (n,).

    Returns:
        float32 (rows, n).
    """
    rows = quantize_rows(x)
    y = np.zeros((len(x), len(codes)), np.float32)
    sub = codes.shape[1] // scales.shape[1]
    weights = np.repeat(scales, sub, axis=1) * codes.astype(np.float32)
    if minimums is not None:
        weights = weights + np.repeat(minimums, sub, axis=1)
    for first in range(0, codes.shape[1], BLOCK):
        if units is None:
            y = _add_groups(first, codes, scales, minimums, rows, y)
        else:
            y = _add_block(first, codes, scales, minimums, units, rows, y)
        for i in first + np.flatnonzero(rows.outliers[:, first : first + BLOCK].any(axis=0)):
            taken, w = rows.outliers[:, i, None], np.broadcast_to(weights[None, :, i], y.shape)
            y = np.where(taken != 0, fused_multiply_add(w, taken, y), y)
    return y if bias is None else y + bias


def _add_groups(
    first: int, codes: Int32, scales: Float32, minimums: Float32 | None, rows: QuantizedRows, y: Float32
) -> Float32:
    sub = codes.shape[1] // scales.shape[1]
    for s in range(first // sub, min(scales.shape[1], (first + BLOCK) // sub)):
        group_scale = rows.scale[:, s * sub // GROUP, None]
        taken = rows.q[:, s * sub : (s + 1) * sub].astype(np.int32)
        dot = (taken @ codes[:, s * sub : (s + 1) * sub].T).astype(np.float32)
        y = fused_multiply_add(dot, scales[None, :, s] * group_scale, y)
        if minimums is not None:
            weighted = group_scale * taken.sum(axis=1, keepdims=True).astype(np.float32)
            y = fused_multiply_add(np.broadcast_to(minimums[None, :, s], y.shape), weighted, y)
    return y


def _add_block(
    start: int,
    codes: Int32,
    scales: Float32,
    minimums: Float32 | None,
    units: Float32,
    rows: QuantizedRows,
    y: Float32,
) -> Float32:
    """4-bit formats: minimums of a block first, in bfloat16, then its dots, summed in whole numbers."""
    block = start // BLOCK
    unit = rows.unit[:, block, None]
    total = np.zeros(y.shape, np.int32)
    for g in range(start // GROUP, min(scales.shape[1], (start + BLOCK) // GROUP)):
        taken = rows.q[:, g * GROUP : (g + 1) * GROUP].astype(np.int32)
        if minimums is not None:
            weighted = rows.scale[:, g, None] * rows.sum[:, g, None].astype(np.float32)
            y = y + minimums[None, :, g] * _from_bf16(round_to_bf16(weighted))
        dot = taken @ codes[:, g * GROUP : (g + 1) * GROUP].T
        level = _whole(rows.scale[:, g, None], unit)
        total += dot * _whole(scales[None, :, g], units[None, :, block]) * level
    return fused_multiply_add(total.astype(np.float32), units[None, :, block] * unit, y)


def _whole(scale: Float32, unit: Float32) -> Int32:
    """How many units a scale is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        units: Int32 = np.nan_to_num(np.rint(scale / unit)).astype(np.int32)
    return units


def _from_bf16(bits: NDArray[np.uint16]) -> Float32:
    values: Float32 = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values


def multiply_bf16(weight: Float32, x: Float32, bias: Float32 | None = None) -> Float32:
    """Product of rows and a bf16 weight, bit for bit as the generic and AVX2 kernels make it.

    AVX-512 and AMX sum pairs of k in their own instructions and differ from this in the last bits; for AMX see
    `multiply_bf16_amx`.

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


def multiply_amx(
    codes: Int32,
    scales: Float32,
    minimums: Float32 | None,
    offset: int,
    exponent: int,
    x: Float32,
    bias: Float32 | None = None,
) -> Float32:
    """Product of rows and an integer weight, bit for bit as AMX makes it: weights and rows in bfloat16.

    Args:
        codes: int32 (n, k), less `offset`; scales and minimums: float32 (n, k / s); as `PackedWeight.parts()` gives
            them. exponent: `PackedWeight.exponent`.
        x: float32 (rows, k). bias: float32 (n,).

    Returns:
        float32 (rows, n).
    """
    k = codes.shape[1]
    sub = k // scales.shape[1]
    power = np.float32(2.0**exponent)
    zero = np.zeros_like(scales) if minimums is None else minimums * power
    zero = np.repeat((zero - np.float32(offset) * (scales * power)).astype(np.float16), sub, axis=1)
    # Codes are masked where they lie, which multiplies them by a power of two.
    shifts = [0, 8, 0, 8, 4, 12, 4, 12] if offset == 8 else [0, 8] * 4
    moved = np.tile(2.0 ** np.array(shifts), k // 8)
    scale = np.repeat((scales * power).astype(np.float16), sub, axis=1).astype(np.float64) / moved
    products = scale.astype(np.float16).astype(np.float64) * ((codes + offset) * moved)
    values = products + zero.astype(np.float64)
    bits = values.astype(np.float16).view(np.uint16)
    size = ((bits & np.uint16(0x7FFF)) + np.uint16(4)) >> np.uint16(3)
    weight = _from_bf16(np.where(size < 0x80, np.uint16(0), size | (bits & np.uint16(0x8000))))
    quads = np.arange(k).reshape(-1, 4)[:, [0, 2, 1, 3]].reshape(-1)
    rows = _from_bf16(round_to_bf16(x * np.float32(2.0**64)))
    y: Float32 = _multiply_tiles(weight[:, quads], rows[:, quads]) * np.float32(2.0 ** (112 - 64 - exponent))
    return y if bias is None else y + bias


def multiply_bf16_amx(weight: Float32, x: Float32, bias: Float32 | None = None) -> Float32:
    """Product of rows and a bf16 weight, bit for bit as AMX makes it.

    Args:
        weight: float32 (n, k) of bfloat16 values. x: float32 (rows, k). bias: float32 (n,).

    Returns:
        float32 (rows, n).
    """
    y = _multiply_tiles(weight, _from_bf16(round_to_bf16(x)))
    return y if bias is None else y + bias


def _multiply_tiles(weight: Float32, x: Float32) -> Float32:
    """Products of bfloat16 by tiles (TDPBF16PS, Intel's manual, volume 2).

    Of each 32 k, products of the first elements of pairs are summed in order, likewise those of the second ones;
    then the sum of both is added to what there is. A product is exact; denormals count as zero, as operands and as
    sums.
    """
    k = weight.shape[1]
    steps = -(-k // GROUP)
    rows, columns = (
        np.zeros((len(x), steps * GROUP), np.float32),
        np.zeros((len(weight), steps * GROUP), np.float32),
    )
    rows[:, :k], columns[:, :k] = _flushed(x), _flushed(weight)
    y = np.zeros((len(x), len(weight)), np.float32)
    for start in range(0, steps * GROUP, GROUP):
        halves = [np.zeros(y.shape, np.float32), np.zeros(y.shape, np.float32)]
        for i in range(GROUP):
            halves[i % 2] = _flushed(halves[i % 2] + rows[:, start + i, None] * columns[None, :, start + i])
        y = _flushed(y + _flushed(halves[0] + halves[1]))
    return y


def _flushed(x: Float32) -> Float32:
    """Float32 with denormals as zeros."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.float32(0), x)
