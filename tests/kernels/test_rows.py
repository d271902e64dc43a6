"""Native row kernels against their numpy twins; an element's bits do not depend on where it stands."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from tenfold import _native
from tenfold.kernels.twins import rows as twin

ISAS = _native.supported_isas()
SIZES = [1, 3, 15, 16, 17, 31, 33, 64, 100, 577]


def normal(*shape: int, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def ulps(got: npt.NDArray[np.float32], want: npt.NDArray[np.float64]) -> float:
    """Largest error in units in the last place of the exact result."""
    unit = np.spacing(np.maximum(np.abs(want), 1e-36).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(got.astype(np.float64) - want) / unit))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("n", SIZES)
def test_rms_norm(isa: str, n: int) -> None:
    x, weight = 3 * normal(n), normal(n, seed=1)
    out = np.empty_like(x)
    _native.rms_norm(isa, x, weight, 1e-5, out)
    np.testing.assert_allclose(out, twin.rms_norm(x, weight, 1e-5), rtol=1e-6)
    _native.rms_norm(isa, x, weight, 1e-5, x)  # in place
    assert x.tobytes() == out.tobytes()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    ("head_dim", "rotary_dim"), [(64, 64), (16, 16), (80, 32), (48, 24), (256, 256), (6, 2)]
)
def test_rope(isa: str, interleaved: bool, head_dim: int, rotary_dim: int) -> None:
    x, angle = normal(3 * head_dim), 10 * normal(rotary_dim // 2, seed=1)
    cos, sin = np.cos(angle), np.sin(angle)
    want = twin.rope(x, 3, rotary_dim, cos, sin, interleaved)
    _native.rope(isa, x, 3, rotary_dim, cos, sin, interleaved)
    np.testing.assert_allclose(x, want, atol=1e-6)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["silu", "gelu_tanh"])
def test_gated(isa: str, kind: str) -> None:
    gate = np.concatenate(
        [np.linspace(-20, 20, 4001, dtype=np.float32), normal(500), 1e-3 * normal(500, seed=2)]
    )
    up = np.ones_like(gate)
    out = np.empty_like(gate)
    _native.gated(isa, kind, gate, up, out)
    want = twin.gated(kind, gate, up)  # type: ignore[arg-type]
    # Rounding of the exponent's argument is magnified by its size, at most 8 in silu before results are tiny.
    near = np.abs(gate) < (8 if kind == "silu" else 2)
    assert ulps(out[near], want[near]) < (4 if kind == "silu" else 8)
    np.testing.assert_allclose(out, want, rtol=2e-5, atol=1e-30)
    big = np.array([1e4, -1e4, 1e30, -1e30, 0.0], np.float32)
    out = np.empty_like(big)
    _native.gated(isa, kind, big, np.ones_like(big), out)
    np.testing.assert_array_equal(out, [1e4, 0, np.float32(1e30), 0, 0])


@pytest.mark.parametrize("isa", ISAS)
def test_softcap(isa: str) -> None:
    x = np.concatenate(
        [np.linspace(-300, 300, 6001, dtype=np.float32), normal(1000), 1e-4 * normal(100, seed=3)]
    )
    want = twin.softcap(x, 30.0)
    _native.softcap(isa, x, 30.0)
    assert ulps(x, want) < 4
    big = np.array([1e30, -1e30, 0.0, -0.0], np.float32)
    _native.softcap(isa, big, 30.0)
    assert big.tobytes() == np.array([30, -30, 0.0, -0.0], np.float32).tobytes()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("n", SIZES)
def test_add_and_scale(isa: str, n: int) -> None:
    x, y = normal(n), normal(n, seed=1)
    want = y + x
    _native.add(isa, x, y)
    assert y.tobytes() == want.tobytes()
    want = y * np.float32(0.3)
    _native.scale(isa, y, 0.3)
    assert y.tobytes() == want.tobytes()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["silu", "gelu_tanh"])
def test_an_element_has_the_same_bits_wherever_it_stands(isa: str, kind: str) -> None:
    gate, up = 4 * normal(77), normal(77, seed=1)
    whole = np.empty_like(gate)
    _native.gated(isa, kind, gate, up, whole)
    for begin, end in [(0, 1), (5, 20), (16, 77), (33, 64), (76, 77)]:
        part = np.empty(end - begin, np.float32)
        _native.gated(isa, kind, gate[begin:end].copy(), up[begin:end].copy(), part)
        assert part.tobytes() == whole[begin:end].tobytes()


def test_sizes_must_agree() -> None:
    with pytest.raises(ValueError, match="weight differs"):
        _native.rms_norm("generic", normal(4), normal(5), 1e-5, normal(4))
    with pytest.raises(ValueError, match="choose silu or gelu_tanh"):
        _native.gated("generic", "relu", normal(4), normal(4), normal(4))
    with pytest.raises(ValueError, match="even rotary_dim"):
        _native.rope("generic", normal(8), 1, 16, normal(8), normal(8), False)
