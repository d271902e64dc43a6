"""Linears over values that break arithmetic: a bad row is its own affair, and no finite weight is refused or lost."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from tenfold import _native
from tenfold.kernels.twins import linear as twin
from tests.linear_cases import BF16, F32, Q8_0, SCALES, activations, pack, product, smallest_k, weight_bytes

F32_LEAST = np.float32(1e-45)
every_isa = pytest.mark.parametrize("isa", _native.supported_isas())
every_integer = pytest.mark.parametrize("ggml_type", SCALES, ids=lambda t: GGMLQuantizationType(t).name)


def strange_rows(k: int) -> dict[str, np.ndarray]:
    """Rows of k columns, by what is strange about them."""
    normal = activations(3, k, seed=5)[2]
    rows = {
        "one NaN": np.where(np.arange(k) == k - 1, np.nan, normal),
        "one infinity": np.where(np.arange(k) == 1, np.inf, normal),
        "infinities of both signs": np.where(np.arange(k) < 2, [np.inf, -np.inf] * (k // 2), normal),
        "1e30": normal * 1e30,
        "the largest": np.copysign(np.finfo(np.float32).max, normal),
        "1e18": normal * 1e18,
        "one huge": np.where(np.arange(k) == k // 2, 1e18, normal),
        "zeros": np.zeros(k),
        "negative zeros": np.full(k, -0.0),
        "1e-30": normal * 1e-30,
        "denormals": normal * 1e-40,
        "few of the smallest numbers": np.where(np.arange(k) < 32, F32_LEAST, 0),
        "small ones among the smallest": np.where(np.arange(k) < 32, 5 * F32_LEAST, F32_LEAST),
    }
    return {name: row.astype(np.float32) for name, row in rows.items()}


@every_isa
@pytest.mark.parametrize("ggml_type", [F32, BF16, *SCALES], ids=lambda t: GGMLQuantizationType(t).name)
def test_a_strange_row_leaves_its_neighbours_alone(isa: str, ggml_type: int) -> None:
    n, k = 18, 4 * (33 if ggml_type in (F32, BF16) else smallest_k(ggml_type))
    weight = pack(ggml_type, weight_bytes(ggml_type, n, k), n, k)
    for rows in (2, 13, 19, 34):
        x = activations(rows, k)
        want = _native.multiply(isa, weight, x)
        for name, row in strange_rows(k).items():
            alone = _native.multiply(isa, weight, row[None])
            for place in {0, rows // 2, rows - 1}:
                x_with = x.copy()
                x_with[place] = row
                got = _native.multiply(isa, weight, x_with)
                others = np.arange(rows) != place
                assert got[others].tobytes() == want[others].tobytes(), name
                assert np.array_equal(got[place], alone[0], equal_nan=True), name


@every_isa
@every_integer
def test_strange_rows_equal_the_twin(isa: str, ggml_type: int) -> None:
    n, k = 18, 4 * smallest_k(ggml_type)
    weight = pack(ggml_type, weight_bytes(ggml_type, n, k), n, k)
    for name, row in strange_rows(k).items():
        got = _native.multiply(isa, weight, row[None])
        with np.errstate(over="ignore", invalid="ignore"):
            want = product(isa, ggml_type, weight, row[None])
        assert np.array_equal(got, want, equal_nan=True), name
        if not np.isfinite(row).all():
            assert not np.isfinite(got).any(), name
        elif np.abs(row).max() < 1e19:
            assert np.isfinite(got).all(), name


def with_scales(ggml_type: int, n: int, k: int, scales: list[float]) -> np.ndarray:
    """Storage whose blocks take these f16 scales in turn, so that rows differ."""
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType(ggml_type)]
    blocks = weight_bytes(ggml_type, n, k).reshape(n, k // block, size).copy()
    halves = np.resize(np.array(scales, np.float16), (k // block, n)).T
    for offset in SCALES[ggml_type]:
        blocks[:, :, offset : offset + 2] = np.ascontiguousarray(halves)[..., None].view(np.uint8)
    return blocks


@every_isa
@every_integer
@pytest.mark.parametrize(
    "scales",
    [[0.0], [-0.0], [6e-8], [6e-8, -1.2e-7, 3e-5], [65504.0], [-65504.0, 65504.0], [60000.0, 1e-7, 0.0]],
    ids=str,
)
def test_weights_of_strange_scales(isa: str, ggml_type: int, scales: list[float]) -> None:
    n, k, rows = 20, 3 * smallest_k(ggml_type), 5
    weight = pack(ggml_type, with_scales(ggml_type, n, k, scales), n, k)
    x = np.random.default_rng(2).standard_normal((rows, k)).astype(np.float32)
    got = _native.multiply(isa, weight, x)
    assert np.array_equal(got, product(isa, ggml_type, weight, x))
    values = np.stack([weight.unpack_row(i) for i in range(n)]).astype(np.float64)
    assert np.isfinite(values).all()
    exact = x.astype(np.float64) @ values.T
    # Weights far below the tensor's largest may count as nothing with amx.
    limit = 0.05 * np.linalg.norm(values, axis=1) + np.abs(values).max() * 2.0**-28 * k
    assert np.all(np.abs(got - exact) <= limit + 1e-30)


@every_isa
def test_tiny_rows_end(isa: str) -> None:
    """The bound of outliers once stood still where a step is more than a quarter of it."""
    for k in (256, 700):
        for row in strange_rows(k).values():
            got = _native.quantize_rows(isa, row[None])
            for mine, its in zip(got, twin.quantize_rows(row[None]), strict=True):
                assert np.array_equal(mine, its, equal_nan=mine.dtype == np.float32)


@every_isa
def test_float_weights_of_strange_values(isa: str) -> None:
    values = np.array([0.0, -0.0, 1e-40, -1e-40, 1.2e-38, 3e34, -3e34, 1.0], np.float32)
    n, k = 17, 70
    data = np.resize(values, (k, n)).T.copy()
    weight = pack(F32, data.view(np.uint8), n, k)
    x = 1e-3 * activations(4, k)
    got = _native.multiply(isa, weight, x)
    rounded = np.stack([weight.unpack_row(i) for i in range(n)])
    if isa == "amx":
        with np.errstate(over="ignore", invalid="ignore"):
            assert np.array_equal(got, twin.multiply_bf16_amx(rounded, x), equal_nan=True)
    exact = x.astype(np.float64) @ rounded.astype(np.float64).T
    scale = np.abs(x).astype(np.float64) @ np.abs(data).astype(np.float64).T
    assert np.all(np.abs(got - exact) <= 0.02 * scale + 1e-36)


def test_rows_of_nothing_make_nothing() -> None:
    weight = pack(Q8_0, weight_bytes(Q8_0, 5, 64), 5, 64)
    for isa in _native.supported_isas():
        assert _native.multiply(isa, weight, np.zeros((0, 64), np.float32)).shape == (0, 5)
        zeros = np.array([[0.0] * 64, [-0.0] * 64], np.float32)
        assert not _native.multiply(isa, weight, zeros).any()
