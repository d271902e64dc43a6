"""Real GGUF files, in the folder $TENFOLD_TEST_MODELS: what is known of them is what is read."""

import os
from pathlib import Path

import numpy as np
import pytest

from tenfold.checkpoints.checkpoint import TensorType
from tenfold.checkpoints.dequantize import dequantize
from tenfold.checkpoints.gguf import GgufCheckpoint

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
FACTS = {
    SMOLLM2: {
        "architecture": "llama",
        "vocab_size": 49152,
        "hidden_size": 576,
        "num_layers": 30,
        "num_heads": 9,
        "num_kv_heads": 3,
        "head_dim": 64,
        "intermediate_size": 1536,
        "context_length": 8192,
        "rope_theta": 1e5,
        "rope_interleaved": True,
        "tie_embeddings": True,
        "sliding_window": None,
    },
    "gemma-3-270m-q4_k_m.gguf": {
        "architecture": "gemma3",
        "vocab_size": 262144,
        "num_layers": 18,
        "num_heads": 4,
        "num_kv_heads": 1,
        "head_dim": 256,
        "sliding_window": 512,
        "global_every": 6,
        "rope_theta": 1e6,
        "rope_theta_local": 1e4,
        "tie_embeddings": True,
        "activation": "gelu_tanh",
        "norm_offset": 0.0,
    },
    "qwen2.5-coder-0.5b-instruct.gguf": {
        "architecture": "qwen2",
        "vocab_size": 151936,
        "num_layers": 24,
        "num_heads": 14,
        "num_kv_heads": 2,
        "head_dim": 64,
        "rope_theta": 1e6,
        "rope_interleaved": False,
        "tie_embeddings": False,
    },
}
TOKENIZERS = {
    SMOLLM2: (1, (2, 0), False, True),
    "gemma-3-270m-q4_k_m.gguf": (2, (1, 106), True, False),
    "qwen2.5-coder-0.5b-instruct.gguf": (151643, (151645, 151643), False, True),
}


def model(name):
    folder = os.environ.get("TENFOLD_TEST_MODELS")
    path = Path(folder or "/", name)
    if folder is None or not path.exists():
        pytest.skip(f"set TENFOLD_TEST_MODELS to a folder with {name}")
    return path


@pytest.mark.parametrize("name", FACTS)
def test_known_facts(name):
    checkpoint = GgufCheckpoint(model(name))
    config = checkpoint.config
    assert {key: getattr(config, key) for key in FACTS[name]} == FACTS[name]
    source = checkpoint.tokenizer
    bos, stops, add_bos, has_template = TOKENIZERS[name]
    assert (source.bos_token_id, source.eos_token_ids, source.add_bos) == (bos, stops, add_bos)
    assert (source.chat_template is not None) == has_template
    assert len(source.gguf["tokenizer.ggml.tokens"]) == config.vocab_size


def test_smollm2_equals_the_gguf_package():
    import gguf  # slow to read a file with, so only here

    path = model(SMOLLM2)
    checkpoint = GgufCheckpoint(path)
    reader = gguf.GGUFReader(path)
    assert list(checkpoint.tensors) == [tensor.name for tensor in reader.tensors]
    for tensor in reader.tensors:
        ours = checkpoint.tensors[tensor.name]
        assert (ours.type.name, ours.shape) == (tensor.tensor_type.name, tuple(tensor.shape[::-1]))
        assert (ours.offset, ours.data.size) == (tensor.data_offset, tensor.data.nbytes)
    for key in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type"):
        assert checkpoint.tokenizer.gguf[key] == reader.fields[key].contents()


def test_smollm2_weights_are_finite_and_plausible():
    checkpoint = GgufCheckpoint(model(SMOLLM2))
    assert {tensor.type for tensor in checkpoint.tensors.values()} == {
        TensorType.F32,
        TensorType.Q4_1,
        TensorType.Q8_0,
    }
    for tensor in checkpoint.tensors.values():
        assert np.isfinite(dequantize(tensor)).all()
    weights = dequantize(checkpoint.tensors["blk.3.ffn_up.weight"])
    assert weights.shape == (1536, 576)
    assert 0.01 < np.std(weights) < 1
