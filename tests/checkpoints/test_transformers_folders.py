"""Folders that transformers itself writes: configuration and every weight equal the model's."""

import numpy as np
import pytest

from tenfold.checkpoints.dequantize import dequantize
from tenfold.checkpoints.hf_names import canonical_name
from tenfold.checkpoints.huggingface import HuggingFaceCheckpoint
from tests.tiny_models import write_tiny_folder

pytestmark = pytest.mark.conformance


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("architecture", ["llama", "mistral", "qwen2", "qwen3", "gemma3"])
def test_equals_the_model(tmp_path, architecture, dtype):
    transformers = pytest.importorskip("transformers")
    folder = write_tiny_folder(tmp_path / "m", architecture, dtype=dtype)
    checkpoint = HuggingFaceCheckpoint(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    theirs, ours = model.config, checkpoint.config
    assert ours.vocab_size == theirs.vocab_size
    assert ours.hidden_size == theirs.hidden_size
    assert ours.num_layers == theirs.num_hidden_layers
    assert ours.num_heads == theirs.num_attention_heads
    assert ours.num_kv_heads == theirs.num_key_value_heads
    assert ours.head_dim == model.model.layers[0].self_attn.head_dim
    assert ours.rms_norm_eps == theirs.rms_norm_eps
    assert ours.tie_embeddings == theirs.tie_word_embeddings
    assert ours.context_length == theirs.max_position_embeddings
    scale = model.model.layers[0].self_attn.scaling
    assert (ours.attention_scale or ours.head_dim**-0.5) == pytest.approx(scale)
    rope = theirs.rope_parameters
    if architecture == "gemma3":
        assert ours.rope_theta == rope["full_attention"]["rope_theta"]
        assert ours.rope_theta_local == rope["sliding_attention"]["rope_theta"]
        windowed = [ours.global_every == 0 or layer % ours.global_every > 0 for layer in range(1, 7)]
        assert windowed == [kind == "sliding_attention" for kind in theirs.layer_types]
        assert ours.sliding_window == theirs.sliding_window
    else:
        assert ours.rope_theta == rope["rope_theta"]
        assert ours.sliding_window == (theirs.sliding_window if architecture == "mistral" else None)
    compared = 0
    for name, weight in model.named_parameters():
        tensor = checkpoint.tensors[canonical_name(name, ours.architecture)]
        np.testing.assert_array_equal(dequantize(tensor), weight.detach().float().numpy())
        compared += 1
    assert compared == len(checkpoint.tensors)


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "beta_fast": 16.0},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 512,
        },
    ],
    ids=lambda rope: rope["rope_type"],
)
def test_rope_scalings(tmp_path, rope):
    pytest.importorskip("transformers")
    folder = write_tiny_folder(tmp_path / "m", "llama", rope_parameters={"rope_theta": 3e4, **rope})
    config = HuggingFaceCheckpoint(folder).config
    assert config.rope_theta == 3e4
    assert (config.rope_scaling.kind, config.rope_scaling.factor) == (rope["rope_type"], rope["factor"])
    assert config.rope_scaling.original_context == rope.get("original_max_position_embeddings", 0)


def test_shards(tmp_path):
    pytest.importorskip("transformers")
    folder = write_tiny_folder(tmp_path / "m", "qwen3", max_shard_size="100KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    assert len({tensor.file for tensor in HuggingFaceCheckpoint(folder).tensors.values()}) > 1
