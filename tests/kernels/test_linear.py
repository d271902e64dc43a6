from __future__ import annotations

import gguf
import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tenfold import _native
from tenfold.kernels.twins import linear as twin
from tests.linear_cases import (
    BF16,
    F16,
    F32,
    FLOAT_TYPES,
    Q4_K,
    Q8_0,
    SCALES,
    TYPES,
    activations,
    pack,
    product,
    smallest_k,
    weight_bytes,
)

PAIRED = (2, 3, Q4_K)  # 4-bit formats
ISAS = _native.supported_isas()
every_type = pytest.mark.parametrize("ggml_type", TYPES, ids=lambda t: GGMLQuantizationType(t).name)
every_integer = pytest.mark.parametrize("ggml_type", SCALES, ids=lambda t: GGMLQuantizationType(t).name)
every_isa = pytest.mark.parametrize("isa", ISAS)


def dequantize(ggml_type: int, data: np.ndarray, n: int, k: int) -> np.ndarray:
    return gguf.dequantize(data, GGMLQuantizationType(ggml_type)).reshape(n, k)


@every_type
@pytest.mark.parametrize("blocks", [1, 3])
def test_packing_loses_nothing(ggml_type: int, blocks: int) -> None:
    n, k = 37, blocks * smallest_k(ggml_type)
    data = weight_bytes(ggml_type, n, k)
    weight = pack(ggml_type, data, n, k, threads=2)
    expected = dequantize(ggml_type, data, n, k)
    if ggml_type in FLOAT_TYPES:
        expected = (twin.round_to_bf16(expected).astype(np.uint32) << np.uint32(16)).view(np.float32)
    assert (weight.n, weight.k, weight.format) == (n, k, GGMLQuantizationType(ggml_type).name.lower())
    got = np.stack([weight.unpack_row(i) for i in range(n)])
    if ggml_type in PAIRED:
        # Scales of Q4_0 and Q4_1 become whole multiples of a block's unit, minimums round to bfloat16.
        codes, _, minimums, units = weight.parts()
        scale_error = 0.5 * np.repeat(units, 256, axis=1)[:, :k] if ggml_type != Q4_K else 0.0
        middle = 0.0 if minimums is None else np.repeat(np.abs(minimums), 32, axis=1) * 2.0**-8
        assert np.all(np.abs(got - expected) <= 1.01 * (scale_error * 8 + middle))
        assert np.abs(codes).max() <= 8
    else:
        assert np.array_equal(got, expected)


def test_every_finite_half_rounds_to_the_nearest_bf16() -> None:
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    weight = pack(F16, halves.view(np.uint8), 1, len(halves))
    expected = twin.round_to_bf16(halves.astype(np.float32)).astype(np.uint32) << np.uint32(16)
    assert np.array_equal(weight.unpack_row(0).view(np.uint32), expected)


@every_integer
def test_parts_make_the_values(ggml_type: int) -> None:
    n, k = 18, 2 * smallest_k(ggml_type)
    weight = pack(ggml_type, weight_bytes(ggml_type, n, k), n, k)
    codes, scales, minimums, _ = weight.parts()
    sub = k // scales.shape[1]
    values = np.repeat(scales, sub, axis=1) * codes.astype(np.float32)
    if minimums is not None:
        values = values + np.repeat(minimums, sub, axis=1)
    assert np.array_equal(values, np.stack([weight.unpack_row(i) for i in range(n)]))


@every_integer
def test_packed_size_is_close_to_the_file(ggml_type: int) -> None:
    n, k = 16, 512
    data = weight_bytes(ggml_type, n, k)
    assert pack(ggml_type, data, n, k).nbytes <= data.size * 1.05


@every_isa
@every_type
@pytest.mark.parametrize(
    ("rows", "n", "blocks"), [(1, 16, 1), (3, 1, 2), (7, 50, 1), (13, 33, 3), (29, 17, 1), (67, 40, 1)]
)
def test_product_equals_twin(isa: str, ggml_type: int, rows: int, n: int, blocks: int) -> None:
    k = blocks * smallest_k(ggml_type)
    data = weight_bytes(ggml_type, n, k)
    weight = pack(ggml_type, data, n, k)
    x = activations(rows, k)
    bias = np.linspace(-1, 1, n, dtype=np.float32)
    got = _native.multiply(isa, weight, x, bias, panels_per_task=2)
    if ggml_type not in FLOAT_TYPES:
        assert np.array_equal(got, product(isa, ggml_type, weight, x, bias))
        return
    values = np.stack([weight.unpack_row(i) for i in range(n)])
    expected = (twin.multiply_bf16_amx if isa == "amx" else twin.multiply_bf16)(values, x, bias)
    if isa == "avx512":
        assert np.allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    else:
        assert np.array_equal(got, expected)


@every_isa
@every_type
def test_product_is_near_the_float_product(isa: str, ggml_type: int) -> None:
    n, rows, k = 48, 9, 4 * (64 if ggml_type in FLOAT_TYPES else smallest_k(ggml_type))
    data = weight_bytes(ggml_type, n, k)
    x = np.random.default_rng(1).standard_normal((rows, k)).astype(np.float32)
    values = dequantize(ggml_type, data, n, k).astype(np.float64)
    got = _native.multiply(isa, pack(ggml_type, data, n, k), x)
    # A group's activations are off by half a step at most, about max|x| / 254; errors add like a random walk.
    limit = 3e-2 * np.linalg.norm(values, axis=1)[None, :] + 1e-6
    assert np.all(np.abs(got - x.astype(np.float64) @ values.T) <= limit)


@every_type
def test_same_bits_however_rows_and_panels_are_split(ggml_type: int) -> None:
    n, k, rows = 75, 2 * smallest_k(ggml_type), 67
    weight = pack(ggml_type, weight_bytes(ggml_type, n, k), n, k)
    x = activations(rows, k)
    for isa in ISAS:
        whole = _native.multiply(isa, weight, x, threads=2, panels_per_task=3)
        for cuts in ([1] * rows, [2, 3, 4, 5, 6, 7, 8, 9, 10, 13], [12, 55], [30, 37]):
            assert sum(cuts) == rows
            ends = np.cumsum(cuts)
            pieces = [
                _native.multiply(isa, weight, x[end - cut : end], panels_per_task=1 + int(cut) % 5)
                for cut, end in zip(cuts, ends, strict=True)
            ]
            assert np.array_equal(np.concatenate(pieces), whole), (isa, cuts)


@every_integer
def test_same_bits_on_every_isa_with_int8_activations(ggml_type: int) -> None:
    n, k, rows = 40, 2 * smallest_k(ggml_type), 14
    weight = pack(ggml_type, weight_bytes(ggml_type, n, k), n, k)
    x = activations(rows, k)
    results = [_native.multiply(isa, weight, x) for isa in ISAS if isa != "amx"]
    for result in results[1:]:
        assert np.array_equal(result, results[0])


@every_isa
def test_same_bits_when_rows_pass_the_cache_budget(isa: str) -> None:
    """A long k makes the driver take the rows in several passes."""
    k, n, rows = 18944, 16, 40
    weight = pack(3, weight_bytes(3, n, k), n, k)
    x = activations(rows, k)
    whole = _native.multiply(isa, weight, x)
    for row in (0, 11, 12, 23, 24, 39):
        assert np.array_equal(_native.multiply(isa, weight, x[row : row + 1])[0], whole[row])


@every_isa
def test_extremes_do_not_saturate(isa: str) -> None:
    """Largest codes against largest activations: 16-bit partial sums would overflow if they were left to."""
    for ggml_type in SCALES:
        n, k = 16, 2 * smallest_k(ggml_type)
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType(ggml_type)]
        for fill in (0x00, 0x7F, 0x80, 0xFF):
            data = np.full((n, k // block, size), fill, np.uint8)
            for offset in SCALES[ggml_type]:
                data[:, :, offset : offset + 2] = np.array([0.01], np.float16).view(np.uint8)
            weight = pack(ggml_type, data, n, k)
            for x in (np.ones((2, k), np.float32), -np.ones((2, k), np.float32)):
                assert np.array_equal(_native.multiply(isa, weight, x), product(isa, ggml_type, weight, x))


@every_isa
def test_bias_then_add(isa: str) -> None:
    n, k, rows = 20, 64, 5
    weight = pack(3, weight_bytes(3, n, k), n, k)
    x = activations(rows, k)
    bias = np.arange(n, dtype=np.float32)
    there = np.random.default_rng(3).standard_normal((rows, n)).astype(np.float32)
    plain = _native.multiply(isa, weight, x)
    assert np.array_equal(_native.multiply(isa, weight, x, bias, there), there + (plain + bias))


@every_isa
@settings(deadline=None, max_examples=60)
@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 3), st.integers(1, 300)),
        elements=st.floats(width=32, allow_nan=True, allow_infinity=True, allow_subnormal=True),
    )
)
def test_rows_are_quantized_as_the_twin_does(isa: str, x: np.ndarray) -> None:
    for got, expected in zip(_native.quantize_rows(isa, x), twin.quantize_rows(x), strict=True):
        assert got.dtype == expected.dtype
        assert np.array_equal(got, expected, equal_nan=got.dtype == np.float32)
    padded = np.zeros((len(x), -(-x.shape[1] // 64) * 64), np.float32)
    padded[:, : x.shape[1]] = x
    assert np.array_equal(_native.bf16_rows(isa, x), twin.round_to_bf16(padded))


@every_isa
def test_a_bad_activation_shows_in_its_row_only(isa: str) -> None:
    n, k = 16, 64
    x = activations(3, k)
    x[1, 40] = np.inf
    for ggml_type in (3, Q8_0):
        y = _native.multiply(isa, pack(ggml_type, weight_bytes(ggml_type, n, k), n, k), x)
        assert not np.isfinite(y[1]).any()
        assert np.isfinite(y[[0, 2]]).all()


@every_integer
def test_scales_that_are_not_finite_are_refused(ggml_type: int) -> None:
    n, k = 20, 2 * smallest_k(ggml_type)
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType(ggml_type)]
    for inside in SCALES[ggml_type]:
        for bits in (0x7C00, 0xFC00, 0x7E00):
            data = weight_bytes(ggml_type, n, k).reshape(-1).copy()
            offset = (17 * (k // block) + 1) * size + inside
            data[offset : offset + 2] = np.array([bits], np.uint16).view(np.uint8)
            with pytest.raises(ValueError, match=rf"byte offset {offset} of the tensor"):
                pack(ggml_type, data, n, k, threads=2)


@pytest.mark.parametrize("ggml_type", FLOAT_TYPES)
def test_float_weights_that_are_not_finite_are_refused(ggml_type: int) -> None:
    size = 4 if ggml_type == F32 else 2
    dtype = {F32: np.float32, F16: np.float16, BF16: np.uint16}[ggml_type]
    for bad in (np.nan, np.inf, -np.inf):
        data = np.zeros(3 * 7, dtype)
        data[10] = twin.round_to_bf16(np.array([bad], np.float32))[0] if ggml_type == BF16 else bad
        with pytest.raises(ValueError, match=rf"byte offset {10 * size} of the tensor"):
            pack(ggml_type, data.view(np.uint8), 3, 7)


def test_wrong_sizes_are_refused() -> None:
    good = weight_bytes(3, 4, 64)
    cases = [
        (3, good[:, :-1].copy(), 4, 64, "takes rows of 40 bytes"),
        (3, good, 5, 64, "160 bytes in all"),
        (3, good, 4, 63, "do not divide"),
        (12, good, 4, 64, "blocks of 256"),
        (3, good, 0, 64, "must be positive"),
        (3, good, 4, -32, "must be positive"),
        (3, good, 2**31 - 1, 64, "too large"),
        (16, good, 4, 64, "Storage type 16"),
        (-1, good, 4, 64, "Storage type -1"),
    ]
    for ggml_type, data, n, k, words in cases:
        with pytest.raises(ValueError, match=words):
            pack(ggml_type, data, n, k)
    weight = pack(3, good, 4, 64)
    with pytest.raises(ValueError, match="cannot meet"):
        _native.multiply(ISAS[0], weight, np.zeros((2, 32), np.float32))
    with pytest.raises(ValueError, match="bias of 3"):
        _native.multiply(ISAS[0], weight, np.zeros((2, 64), np.float32), np.zeros(3, np.float32))
    with pytest.raises(IndexError, match="Row 4"):
        weight.unpack_row(4)
    with pytest.raises(ValueError, match="instruction set 'mmx'"):
        _native.multiply("mmx", weight, np.zeros((2, 64), np.float32))


def test_read_only_storage_is_taken() -> None:
    data = weight_bytes(Q8_0, 3, 32).reshape(-1)
    data.setflags(write=False)
    assert _native.pack_weight(Q8_0, data, 3, 32).n == 3
