"""config.json in the styles of transformers 4 and 5, for every model type."""

import pytest

from tenfold.checkpoints.checkpoint import RopeScaling
from tenfold.checkpoints.fields import Fields
from tenfold.checkpoints.hf_config import read_config
from tenfold.core.errors import CheckpointError, UnsupportedModelError
from tests.checkpoints.hf_folder import CONFIGS, config

LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA = CONFIGS


def read(architecture, **changes):
    return read_config(Fields("config.json", config(architecture, **changes)))


def test_llama():
    got = read(LLAMA)
    assert got.architecture == "llama"
    assert (got.vocab_size, got.hidden_size, got.num_layers, got.intermediate_size) == (300, 64, 2, 96)
    assert (got.num_heads, got.num_kv_heads, got.head_dim) == (4, 2, 16)
    assert (got.context_length, got.rms_norm_eps, got.rope_theta) == (512, 1e-5, 5e5)
    assert not got.rope_interleaved
    assert not got.tie_embeddings
    assert got.sliding_window is None
    assert read(LLAMA, num_key_value_heads=None).num_kv_heads == 4
    assert read(LLAMA, tie_word_embeddings=True).tie_embeddings
    assert read(LLAMA, partial_rotary_factor=0.5).rotary_dim == 8


def test_mistral_window():
    assert (read(MISTRAL).architecture, read(MISTRAL).sliding_window, read(MISTRAL).global_every) == (
        "llama",
        64,
        0,
    )
    fields = config(MISTRAL)
    assert read_config(Fields("f", {**fields, "sliding_window": None})).sliding_window is None
    del fields["sliding_window"]
    assert read_config(Fields("f", fields)).sliding_window == 4096  # the class's default


def test_qwen2_window_needs_its_flag():
    assert read(QWEN2).sliding_window is None
    assert read(QWEN2, use_sliding_window=True, max_window_layers=2).sliding_window is None
    got = read(QWEN2, use_sliding_window=True, max_window_layers=0)
    assert (got.sliding_window, got.global_every) == (64, 0)
    with pytest.raises(UnsupportedModelError, match="without a fixed period"):
        read(QWEN2, use_sliding_window=True, max_window_layers=1)


def test_qwen3_head_dim():
    assert read(QWEN3).head_dim == 32
    assert read(QWEN3, head_dim=None).head_dim == 128


def test_gemma3_old_style():
    got = read(GEMMA, rope_theta=1e6, rope_local_base_freq=2e4, sliding_window_pattern=3)
    assert (got.rope_theta, got.rope_theta_local) == (1e6, 2e4)
    assert (got.sliding_window, got.global_every) == (64, 3)
    assert (got.attention_scale, got.norm_offset, got.activation) == (0.125, 1.0, "gelu_tanh")
    assert read(GEMMA).rope_theta_local == 1e4
    assert read(GEMMA).global_every == 6
    scaled = read(GEMMA, rope_scaling={"rope_type": "linear", "factor": 8.0})
    assert scaled.rope_scaling == RopeScaling(kind="linear", factor=8.0)
    assert scaled.rope_theta == 1e6


def test_gemma3_new_style():
    rope = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 3e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
    }
    kinds = ["sliding_attention", "full_attention"] * 3
    got = read(GEMMA, rope_parameters=rope, layer_types=kinds)
    assert (got.rope_theta, got.rope_theta_local, got.global_every) == (3e6, 2e4, 2)
    assert got.rope_scaling == RopeScaling(kind="linear", factor=8.0)
    assert read(GEMMA, layer_types=["sliding_attention"] * 6).global_every == 0
    assert read(GEMMA, layer_types=["full_attention"] * 6).sliding_window is None


def test_gemma3_nested_with_class_defaults():
    nested = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    fields = {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": nested,
    }
    got = read_config(Fields("f", fields))
    assert (got.vocab_size, got.num_heads, got.num_kv_heads, got.head_dim) == (262_208, 8, 4, 256)
    assert (got.context_length, got.attention_scale, got.tie_embeddings) == (131_072, 0.0625, True)
    assert (got.sliding_window, got.global_every) == (1024, 6)
    assert not read_config(Fields("f", {**fields, "tie_word_embeddings": False})).tie_embeddings


@pytest.mark.parametrize("field", ["rope_scaling", "rope_parameters"])
def test_rope_scalings_old_and_new(field):
    def scaling(**rope):
        return read(LLAMA, **{field: {"rope_theta": 5e5, **rope}})

    assert scaling(rope_type="default").rope_scaling is None
    assert scaling(type="linear", factor=2).rope_scaling == RopeScaling(kind="linear", factor=2.0)
    llama3 = scaling(
        rope_type="llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=256,
    )
    assert llama3.rope_scaling == RopeScaling(kind="llama3", factor=8.0, original_context=256)
    assert llama3.context_length == 512
    yarn = scaling(rope_type="yarn", factor=4.0)
    assert yarn.rope_scaling == RopeScaling(kind="yarn", factor=4.0, original_context=512)
    assert yarn.context_length == 2048
    full = scaling(type="yarn", factor=4.0, attention_factor=0.7, beta_fast=16, beta_slow=2)
    assert (full.rope_scaling.attention_factor, full.rope_scaling.beta_fast, full.rope_scaling.beta_slow) == (
        0.7,
        16,
        2,
    )
    scaled = scaling(type="yarn", factor=40.0, mscale=1.0, mscale_all_dim=1.0)
    assert scaled.rope_scaling.attention_factor == pytest.approx(1.0)
    with pytest.raises(UnsupportedModelError, match="'dynamic' is not supported"):
        scaling(type="dynamic", factor=2.0)
    with pytest.raises(UnsupportedModelError, match="truncate"):
        scaling(type="yarn", factor=2.0, truncate=False)
    with pytest.raises(CheckpointError, match="'factor' is missing"):
        scaling(rope_type="linear")


def test_new_style_theta():
    assert (
        read(LLAMA, rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 7e5}).rope_theta
        == 7e5
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
        (
            {"architectures": ["MixtralForCausalLM"]},
            "'MixtralForCausalLM' is not supported; supported: LlamaFor",
        ),
        ({"hidden_act": "relu"}, "activation 'relu'"),
        ({"mlp_bias": True}, "'mlp_bias' is not supported"),
        ({"attn_logit_softcapping": 50.0}, "soft-capping"),
    ],
)
def test_what_is_not_built_is_refused(changes, problem):
    with pytest.raises(UnsupportedModelError, match=problem):
        read(LLAMA, **changes)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"hidden_size": None}, "'hidden_size' is missing"),
        ({"hidden_size": "64"}, "'hidden_size' must be an integer, not a string"),
        ({"hidden_size": 62}, "does not divide hidden_size 62"),
        ({"num_attention_heads": 0}, "is 0, outside 1 to"),
        ({"num_key_value_heads": 3}, "does not divide the 4 attention heads"),
        ({"num_hidden_layers": 10**9}, "outside 1 to 1024"),
        ({"max_position_embeddings": 2**40}, "outside 1 to"),
        ({"head_dim": 15}, "15 rotated dimensions"),
        ({"rms_norm_eps": -1}, "outside 0 to"),
        ({"rope_theta": True}, "must be a number"),
        ({"rope_scaling": [1]}, "must be an object, not an array"),
        ({"tie_word_embeddings": "yes"}, "must be true or false"),
    ],
)
def test_wrong_fields(changes, problem):
    with pytest.raises(CheckpointError, match=problem):
        read(LLAMA, **changes)


@pytest.mark.parametrize(
    "kinds", [["full_attention"], "x", ["odd"] * 6, [None] * 6, [["full_attention"]] * 6]
)
def test_wrong_layer_types(kinds):
    with pytest.raises(CheckpointError, match="'layer_types' must be 6 times"):
        read(GEMMA, layer_types=kinds)
