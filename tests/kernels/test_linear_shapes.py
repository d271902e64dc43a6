"""Linears of odd shapes: every number of rows, columns that fill no panel, k that fills no block, pair or tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType

from tenfold import _native
from tenfold.kernels.twins import linear as twin
from tests.guard_pages import guarded
from tests.linear_cases import BF16, F32, FLOAT_TYPES, Q4_K, Q8_0, activations, pack, product, weight_bytes

Q4_0, Q4_1, Q6_K = 2, 3, 14
MOST_ROWS = 67
every_isa = pytest.mark.parametrize("isa", _native.supported_isas())
every_case = pytest.mark.parametrize(
    ("ggml_type", "k"),
    [(Q4_0, 96), (Q4_1, 352), (Q4_K, 512), (Q6_K, 256), (Q8_0, 1312), (F32, 37), (BF16, 333), (BF16, 1299)],
    ids=lambda x: GGMLQuantizationType(x).name if x in (Q4_0, Q4_1, Q4_K, Q6_K, Q8_0, F32, BF16) else f"k{x}",
)


def assert_twins(isa: str, ggml_type: int, weight: Any, x: np.ndarray, got: np.ndarray) -> None:
    if ggml_type not in FLOAT_TYPES:
        assert np.array_equal(got, product(isa, ggml_type, weight, x))
        return
    values = np.stack([weight.unpack_row(i) for i in range(weight.n)])
    expected = (twin.multiply_bf16_amx if isa == "amx" else twin.multiply_bf16)(values, x)
    tolerance = 1e-5 if isa == "avx512" else 0.0
    assert np.allclose(got, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@every_isa
@every_case
def test_any_number_of_rows(isa: str, ggml_type: int, k: int) -> None:
    n = 21
    weight = pack(ggml_type, weight_bytes(ggml_type, n, k), n, k)
    x = activations(MOST_ROWS, k)
    alone = np.concatenate([_native.multiply(isa, weight, x[i : i + 1]) for i in range(MOST_ROWS)])
    assert_twins(isa, ggml_type, weight, x, alone)
    for rows in range(MOST_ROWS + 1):
        got = _native.multiply(isa, weight, x[:rows])
        assert got.shape == (rows, n)
        assert got.tobytes() == alone[:rows].tobytes(), rows


@every_isa
@pytest.mark.parametrize(
    "ggml_type", [Q4_0, Q4_1, Q8_0, F32, BF16], ids=lambda t: GGMLQuantizationType(t).name
)
def test_any_number_of_columns(isa: str, ggml_type: int) -> None:
    """From one element, or one block of 32, to beyond two blocks of 256."""
    step = 1 if ggml_type in FLOAT_TYPES else 32
    for k in range(step, 70 if step == 1 else 18 * step, step):
        for n, rows in ((1 + k // step % 33, 1), (17, 3), (16, 33)):
            weight = pack(ggml_type, weight_bytes(ggml_type, n, k), n, k)
            x = activations(rows, k)
            assert_twins(isa, ggml_type, weight, x, _native.multiply(isa, weight, x))


@every_isa
@pytest.mark.parametrize("rows", [1, 17, 33])
@pytest.mark.parametrize("at_end", [True, False])
@every_case
def test_nothing_is_read_outside_of_arrays(isa: str, ggml_type: int, k: int, rows: int, at_end: bool) -> None:
    n = 19
    weight = pack(ggml_type, guarded(weight_bytes(ggml_type, n, k).reshape(-1), at_end), n, k)
    x, bias, there = activations(rows, k), np.arange(n, dtype=np.float32), np.ones((rows, n), np.float32)
    got = _native.multiply(isa, weight, *(guarded(array, at_end) for array in (x, bias, there)))
    assert got.tobytes() == _native.multiply(isa, weight, x, bias, there).tobytes()
