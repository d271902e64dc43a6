"""Programs from checkpoints: what they contain, and checkpoints that are refused."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tenfold.checkpoints.checkpoint import TensorType
from tenfold.checkpoints.open import open_checkpoint
from tenfold.core.errors import CheckpointError, UnsupportedModelError
from tenfold.models.build import build_program
from tenfold.models.registry import architectures, builder_for
from tenfold.program.op import Attention, Embed, GatedActivation, Linear, Logits, Rope
from tests.memory_checkpoint import MemoryCheckpoint, tiny_checkpoint
from tests.tiny_models import ARCHITECTURES, write_tiny_gguf


def ops_of(program, kind):
    return [op for op in program.ops if isinstance(op, kind)]


def test_the_registry_knows_what_can_be_built():
    assert set(architectures()) == set(ARCHITECTURES)
    assert all(callable(builder_for(name)) for name in architectures())


def test_an_unknown_architecture_is_refused_with_the_known_ones():
    with pytest.raises(UnsupportedModelError, match=r"'bert' is not supported.*gemma3, llama, qwen2, qwen3"):
        builder_for("bert")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_tiny_file_builds(tmp_path, architecture):
    checkpoint = open_checkpoint(write_tiny_gguf(tmp_path / "m.gguf", architecture))
    program = build_program(checkpoint)
    assert program.name == checkpoint.name
    assert {spec.tensor for spec in program.weights.values()} == set(checkpoint.tensors)


def test_a_llama_layer_is_nine_ops():
    program = build_program(tiny_checkpoint("llama"))
    assert len(program.ops) == 2 * 9 + 3
    assert [op.add for op in ops_of(program, Linear)] == [False, True, False, True] * 2
    assert program.buffers == {"x": 24, "h": 24, "qkv": 64, "attn": 32, "gate_up": 80, "act": 40}
    assert ops_of(program, Logits)[0].weight == "output.weight"


def test_a_tied_model_shares_its_embedding():
    program = build_program(tiny_checkpoint("llama", tie_embeddings=True))
    assert ops_of(program, Logits)[0].weight == ops_of(program, Embed)[0].weight == "token_embd.weight"


def test_gemma_alternates_windows_and_rotary_tables():
    program = build_program(tiny_checkpoint("gemma3", num_layers=12, attention_scale=0.3, norm_offset=1.0))
    windows = [5, 5, 5, 5, 5, None] * 2
    assert [layer.window for layer in program.kv.layers] == windows
    assert [op.window for op in ops_of(program, Attention)] == windows
    assert [op.rope for op in ops_of(program, Rope)] == ["local" if w else "global" for w in windows]
    assert {op.scale for op in ops_of(program, Attention)} == {0.3}
    assert {op.kind for op in ops_of(program, GatedActivation)} == {"gelu_tanh"}
    assert ops_of(program, Embed)[0].scale == pytest.approx(24**0.5)
    offsets = {spec.offset for name, spec in program.weights.items() if "norm" in name}
    assert offsets == {1.0}
    assert program.weights["token_embd.weight"].offset == 0.0


def test_a_window_without_period_holds_in_every_layer():
    program = build_program(tiny_checkpoint("llama", sliding_window=7))
    assert [layer.window for layer in program.kv.layers] == [7, 7]


def test_biases_are_used_where_a_checkpoint_has_them():
    plain = tiny_checkpoint("llama")
    biases = {"blk.0.attn_q.bias": np.ones(32), "blk.1.attn_output.bias": np.ones(24)}
    linears = ops_of(build_program(MemoryCheckpoint(plain.config, {**plain.arrays, **biases})), Linear)
    assert linears[0].biases == ("blk.0.attn_q.bias", None, None)
    assert linears[5].biases == ("blk.1.attn_output.bias",)


def test_rope_factors_come_from_their_tensor():
    plain = tiny_checkpoint("llama")
    config = msgspec.structs.replace(plain.config, rope_factors="rope_freqs.weight")
    factors = {"rope_freqs.weight": np.array([1.0, 2.0, 4.0, 8.0])}
    with_factors = build_program(MemoryCheckpoint(config, {**plain.arrays, **factors}))
    got, base = with_factors.ropes["rope"].inv_freq, build_program(plain).ropes["rope"].inv_freq
    assert [b / g for g, b in zip(got, base, strict=True)] == pytest.approx([1, 2, 4, 8])


@pytest.mark.parametrize(
    ("architecture", "tensor"),
    [
        ("llama", "token_embd.weight"),
        ("llama", "blk.1.attn_k.weight"),
        ("llama", "output.weight"),
        ("qwen2", "blk.0.attn_v.bias"),
        ("qwen3", "blk.1.attn_q_norm.weight"),
        ("gemma3", "blk.5.post_ffw_norm.weight"),
    ],
)
def test_a_missing_or_misshapen_tensor_is_named_with_the_shape_it_needs(architecture, tensor):
    checkpoint = tiny_checkpoint(architecture)
    right = checkpoint.arrays.pop(tensor)
    with pytest.raises(CheckpointError) as missing:
        build_program(checkpoint)
    assert missing.value.tensor == tensor
    assert str(right.shape) in str(missing.value)
    checkpoint.arrays[tensor] = np.zeros((*right.shape[:-1], right.shape[-1] + 1), np.float32)
    with pytest.raises(CheckpointError) as misshapen:
        build_program(checkpoint)
    assert misshapen.value.tensor == tensor
    assert str(right.shape) in str(misshapen.value)
    assert str(checkpoint.arrays[tensor].shape) in str(misshapen.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_kv_heads": 3}, "4 query heads cannot share 3 key-value heads"),
        ({"num_layers": 0}, "num_layers is 0"),
        ({"sliding_window": 0}, "sliding window 0"),
        ({"rope_theta": 0.5}, "the rotary embedding cannot be made"),
        ({"rotary_dim": 3}, "the rotary embedding cannot be made"),
        ({"rope_factors": "gone"}, "the rotary factors are missing"),
    ],
)
def test_hyperparameters_that_fit_no_model_are_refused(changes, message):
    checkpoint = tiny_checkpoint("llama")
    checkpoint.config = msgspec.structs.replace(checkpoint.config, **changes)
    with pytest.raises(CheckpointError, match=message):
        build_program(checkpoint)


@pytest.mark.parametrize("factors", [np.zeros(4), np.array([1, np.nan, 1, 1]), np.ones(3)])
def test_rope_factors_that_give_no_table_are_refused(factors):
    checkpoint = tiny_checkpoint("llama")
    checkpoint.arrays["rope_freqs.weight"] = factors
    checkpoint.config = msgspec.structs.replace(checkpoint.config, rope_factors="rope_freqs.weight")
    with pytest.raises(CheckpointError, match="rotary") as error:
        build_program(checkpoint)
    assert error.value.tensor == "rope_freqs.weight"


def test_tensors_without_a_place_are_refused():
    checkpoint = tiny_checkpoint("llama")
    checkpoint.arrays["blk.0.attn_q_norm.weight"] = np.ones(8, np.float32)
    with pytest.raises(UnsupportedModelError, match=r"'blk.0.attn_q_norm.weight' has no place"):
        build_program(checkpoint)


def test_a_mixture_of_experts_is_refused():
    checkpoint = tiny_checkpoint("llama")
    checkpoint.arrays["blk.0.ffn_gate_inp.weight"] = np.ones((8, 24), np.float32)
    with pytest.raises(UnsupportedModelError, match="mixture of experts"):
        build_program(checkpoint)


def test_memory_checkpoints_are_what_the_protocol_says():
    tensor = tiny_checkpoint("llama").tensors["output.weight"]
    assert tensor.type is TensorType.F32
    assert tensor.data.nbytes == 4 * 50 * 24
