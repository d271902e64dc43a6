from __future__ import annotations

from pathlib import Path

import pytest

from tenfold.config.engine import EngineSettings
from tenfold.engine.model import Model, load_model
from tenfold.lab.profile.cost import Cost, Pricer, Work
from tenfold.lab.roofline import Ceilings, Chunk, Roofline
from tenfold.program.op import Add, Attention, Embed, Linear, Logits, RmsNorm, Rope
from tests.tiny_models import write_tiny_gguf

STEPS = [
    (Chunk(0, 30, False), Chunk(40, 1, True)),
    (Chunk(30, 20, True), Chunk(41, 1, True)),
    (Chunk(64, 5, False),),
]
CEILINGS = Ceilings(int8_gops=100.0, bf16_gflops=50.0, fp32_gflops=25.0, memory_read_gbs=10.0, read_bytes=1)


def loaded(folder: Path, architecture: str, type: str, **options: object) -> Model:
    file = write_tiny_gguf(folder / "tiny.gguf", architecture, type, **options)  # type: ignore[arg-type]
    return load_model(
        file, EngineSettings(threads=1, isa="generic", max_model_len=128, kv_cache_memory_bytes=1 << 20)
    )


def pricer(model: Model) -> Pricer:
    native = model.runner.native
    return Pricer(model.program, native.weight_sizes, native.weight_products, Work.of(STEPS))


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma3"])
@pytest.mark.parametrize("type", ["Q8_0", "BF16"])
def test_ops_together_cost_what_the_roofline_says(tmp_path: Path, architecture: str, type: str) -> None:
    model = loaded(tmp_path, architecture, type, tied=False)
    prices, native = pricer(model), model.runner.native
    ops = [op for op in model.program.ops if not isinstance(op, Embed)]
    whole = sum((prices.price(op) for op in ops), Cost())
    roofline = Roofline(model.program, native.weight_bytes, native.weight_formats, native.weight_products)
    expected = [roofline.price(step) for step in STEPS]
    assert whole.int8_ops == sum(cost.int8_ops for cost in expected)
    assert whole.bf16_flops == pytest.approx(sum(cost.bf16_flops for cost in expected))
    # The roofline shares out the vectors' bytes among the matrices, and does not count the writing of new positions.
    assert whole.weight_bytes == pytest.approx(sum(cost.weight_bytes for cost in expected), rel=0.05)
    written = sum(chunk.count for step in STEPS for chunk in step) * model.program.kv.bytes_per_token
    assert whole.kv_bytes - written == sum(cost.kv_bytes for cost in expected)


def test_single_ops_cost_what_their_shapes_say(tmp_path: Path) -> None:
    model = loaded(tmp_path, "gemma3", "Q8_0", window=32)
    prices, program = pricer(model), model.program
    tokens, samples = 57, 3
    first = {type(op): op for op in reversed(program.ops)}
    embed, norm, linear = first[Embed], first[RmsNorm], first[Linear]
    assert isinstance(linear, Linear) and isinstance(norm, RmsNorm) and isinstance(embed, Embed)
    hidden = program.buffers[embed.out]
    table = model.runner.native.weight_sizes[0]
    assert prices.price(embed).weight_bytes == pytest.approx(tokens * table / program.vocab_size)
    assert prices.price(embed).activation_bytes == tokens * hidden * 4
    assert prices.price(norm).activation_bytes == tokens * hidden * 8
    outputs = sum(program.weights[name].shape[0] for name in linear.weights)
    assert prices.price(linear).int8_ops == 2 * tokens * hidden * outputs
    assert prices.price(linear).activation_bytes == tokens * (outputs * 4 + hidden * 1.25)
    assert prices.quantize(linear).activation_bytes == tokens * hidden * 5.25
    assert prices.quantize(norm) == Cost()
    add, rope = first[Add], first[Rope]
    assert isinstance(add, Add) and isinstance(rope, Rope)
    assert prices.price(add) == Cost(activation_bytes=tokens * hidden * 12, fp32_flops=tokens * hidden)
    assert prices.price(rope).activation_bytes == tokens * rope.x.width * 8
    logits = first[Logits]
    assert prices.price(logits).weight_bytes == 2 * table  # the last step samples nothing
    assert prices.sampling().activation_bytes == samples * program.vocab_size * 4


def test_layers_of_one_shape_attend_at_one_cost(tmp_path: Path) -> None:
    model = loaded(tmp_path, "gemma3", "Q8_0", window=32)
    prices = pricer(model)
    costs = {(op.window, prices.price(op)) for op in model.program.ops if isinstance(op, Attention)}
    assert len(costs) == 2
    near, far = sorted((cost for _, cost in costs), key=lambda cost: cost.kv_bytes)
    assert near.kv_bytes < far.kv_bytes and near.activation_bytes == far.activation_bytes


def test_the_least_time_by_each_ceiling() -> None:
    cost = Cost(
        weight_bytes=5e9, kv_bytes=5e9, activation_bytes=1e12, int8_ops=50e9, bf16_flops=5e9, fp32_flops=5e9
    )
    assert cost.least(CEILINGS) == {"memory": 1.0, "int8": 0.5, "bf16": 0.1, "fp32": 0.2}
    assert cost.scaled(0.5).operations == 30e9
    assert (cost + cost).total_bytes == 2 * cost.total_bytes
