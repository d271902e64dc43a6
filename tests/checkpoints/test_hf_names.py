"""Tensor names of Hugging Face folders against the gguf package's own mapping."""

import gguf
import pytest

from tenfold.checkpoints.hf_names import canonical_name, is_skipped
from tests.checkpoints.hf_folder import CONFIGS, SIZES, tensors

ARCHITECTURES = {
    "LlamaForCausalLM": ("llama", gguf.MODEL_ARCH.LLAMA),
    "MistralForCausalLM": ("llama", gguf.MODEL_ARCH.LLAMA),
    "Qwen2ForCausalLM": ("qwen2", gguf.MODEL_ARCH.QWEN2),
    "Qwen3ForCausalLM": ("qwen3", gguf.MODEL_ARCH.QWEN3),
    "Gemma3ForCausalLM": ("gemma3", gguf.MODEL_ARCH.GEMMA3),
}


@pytest.mark.parametrize("architecture", CONFIGS)
def test_equals_the_oracle(architecture):
    ours, theirs = ARCHITECTURES[architecture]
    mapping = gguf.get_tensor_name_map(theirs, 8)
    names = tensors({**SIZES, **CONFIGS[architecture], "architectures": [architecture]})
    assert names
    for name in names:
        assert canonical_name(name, ours) == mapping.get_name(name, (".weight", ".bias"))


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model."])
def test_multimodal_prefixes(prefix):
    assert canonical_name(prefix + "layers.3.mlp.up_proj.weight", "gemma3") == "blk.3.ffn_up.weight"
    assert canonical_name("language_model.lm_head.weight", "gemma3") == "output.weight"


@pytest.mark.parametrize(
    "name", ["", "model.", "layers.1.mlp.up_proj.weight", "model.layers.99999.mlp.up_proj.weight"]
)
def test_others_have_no_name(name):
    assert canonical_name(name, "llama") is None
    assert canonical_name("model.layers.0.self_attn.sinks", "llama") is None
    assert canonical_name("model.layers.0.pre_feedforward_layernorm.weight", "llama") is None


def test_skipped():
    assert is_skipped("vision_tower.x.weight")
    assert is_skipped("model.multi_modal_projector.x")
    assert is_skipped("model.layers.0.self_attn.rotary_emb.inv_freq")
    assert not is_skipped("model.layers.0.mlp.up_proj.weight")
