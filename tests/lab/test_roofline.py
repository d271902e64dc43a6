from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold import _native
from tenfold.config.engine import EngineSettings
from tenfold.engine.model import Model, load_model
from tenfold.lab.roofline import (
    Ceilings,
    Chunk,
    Roofline,
    StepCost,
    best_of,
    measure_ceilings,
    visible_positions,
)
from tests.tiny_models import write_tiny_gguf

VOCAB, HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE = 300, 64, 2, 4, 2, 32, 128
LAYER = HIDDEN * HEAD_DIM * (2 * HEADS + 2 * KV_HEADS) + 3 * HIDDEN * INTERMEDIATE
CEILINGS = Ceilings(
    int8_gops=100.0, bf16_gflops=50.0, fp32_gflops=25.0, memory_read_gbs=10.0, read_bytes=1 << 26
)


def loaded(folder: Path, isa: str = "generic", **options: object) -> Model:
    file = write_tiny_gguf(folder / "tiny.gguf", **options)  # type: ignore[arg-type]
    return load_model(
        file, EngineSettings(threads=1, isa=isa, max_model_len=128, kv_cache_memory_bytes=1 << 20)
    )


def roofline(model: Model) -> Roofline:
    native = model.runner.native
    return Roofline(model.program, native.weight_bytes, native.weight_formats, native.weight_products)


@given(st.integers(0, 60), st.integers(1, 60), st.none() | st.integers(1, 70))
def test_visible_positions_are_those_counted_one_by_one(start: int, count: int, window: int | None) -> None:
    seen = sum(min(p + 1, window or p + 1) for p in range(start, start + count))
    assert visible_positions(Chunk(start, count, True), window) == seen


@pytest.mark.parametrize("isa", _native.supported_isas())
@pytest.mark.parametrize("type", ["Q8_0", "F16"])
def test_what_products_are_made_in(tmp_path: Path, isa: str, type: str) -> None:
    products = set(loaded(tmp_path, isa, type=type).runner.native.weight_products)
    assert products == {"int8" if type == "Q8_0" and isa != "amx" else "bf16"}


@pytest.mark.parametrize("tied", [True, False])
def test_a_step_of_an_integer_model(tmp_path: Path, tied: bool) -> None:
    model = loaded(tmp_path, type="Q8_0", tied=tied)
    native = model.runner.native
    prices = roofline(model)
    whole = prices.price([Chunk(10, 5, True), Chunk(0, 3, False)])
    assert whole.int8_ops == 2 * (8 * LAYERS * LAYER + VOCAB * HIDDEN)
    positions = 15 + 3
    assert whole.kv_bytes == positions * model.program.kv.bytes_per_token
    seen = (11 + 12 + 13 + 14 + 15) + (1 + 2 + 3)
    assert whole.bf16_flops == LAYERS * 4 * HEADS * HEAD_DIM * seen

    matrices = LAYERS * LAYER + VOCAB * HIDDEN * (1 if tied else 2)
    table = native.weight_bytes * VOCAB * HIDDEN / matrices
    if tied:
        assert whole.weight_bytes == pytest.approx(native.weight_bytes)
    else:
        assert whole.weight_bytes == pytest.approx(native.weight_bytes - table)
    unsampled = prices.price([Chunk(0, 1, False)])
    assert whole.weight_bytes - unsampled.weight_bytes == pytest.approx(table)


def test_float_weights_cost_bf16_operations(tmp_path: Path) -> None:
    cost = roofline(loaded(tmp_path, type="F16", tied=True)).price([Chunk(0, 1, True)])
    assert cost.int8_ops == 0
    assert cost.bf16_flops == 2 * (LAYERS * LAYER + VOCAB * HIDDEN) + LAYERS * 4 * HEADS * HEAD_DIM


def test_a_window_bounds_what_is_read(tmp_path: Path) -> None:
    model = loaded(tmp_path, architecture="gemma3", window=32)
    prices = roofline(model)
    near, far = prices.price([Chunk(64, 1, True)]), prices.price([Chunk(96, 1, True)])
    one_global_layer = 4 * KV_HEADS * model.program.kv.layers[0].head_dim
    assert far.kv_bytes - near.kv_bytes == 32 * one_global_layer


def test_seconds_are_those_of_the_slower_part() -> None:
    cost = StepCost(weight_bytes=10e9, kv_bytes=10e9, int8_ops=100e9, bf16_flops=25e9)
    assert cost.seconds(CEILINGS) == pytest.approx(2.0)
    more = msgspec.structs.replace(cost, bf16_flops=100e9)
    assert more.seconds(CEILINGS) == pytest.approx(3.0)


def test_the_best_of_two_measurements() -> None:
    other = msgspec.structs.replace(CEILINGS, int8_gops=200.0, memory_read_gbs=5.0)
    best = best_of(CEILINGS, other)
    assert (best.int8_gops, best.memory_read_gbs, best.bf16_gflops) == (200.0, 10.0, 50.0)


def test_measured_ceilings_read_at_least_64_mib() -> None:
    ceilings = measure_ceilings("generic", 1, 0.01, 1000)
    assert ceilings.read_bytes == 64 << 20
    assert min(ceilings.int8_gops, ceilings.bf16_gflops, ceilings.memory_read_gbs) > 0
