"""The reference interpreter against transformers in float32, on tiny random models of every architecture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tenfold.checkpoints.dequantize import dequantize
from tenfold.checkpoints.open import open_checkpoint
from tenfold.models.build import build_program
from tenfold.program.reference import Chunk, ReferenceRunner
from tests.tiny_models import write_tiny_folder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.conformance

TOKENS = 80


def rope(kind: str, **fields: float) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10_000.0, **fields}}


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama biases": ("llama", {"attention_bias": True}),
    "llama tied": ("llama", {"tie_word_embeddings": True}),
    "llama multi-query": ("llama", {"num_key_value_heads": 1}),
    "llama linear": ("llama", rope("linear", factor=4.0)),
    "llama llama3": (
        "llama",
        rope(
            "llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
        ),
    ),
    "llama yarn": ("llama", rope("yarn", factor=4.0, original_max_position_embeddings=64)),
    "llama yarn, all fields": (
        "llama",
        rope(
            "yarn",
            factor=8.0,
            original_max_position_embeddings=1024,
            beta_fast=8.0,
            beta_slow=1.5,
            attention_factor=1.3,
        ),
    ),
    "mistral": ("mistral", {"sliding_window": None}),
    "mistral window": ("mistral", {"sliding_window": 24}),
    "qwen2": ("qwen2", {}),
    "qwen2 tied": ("qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("qwen3", {}),
    "gemma3": ("gemma3", {"query_pre_attn_scalar": 48}),
    "gemma3 linear": (
        "gemma3",
        {
            "num_hidden_layers": 7,
            "sliding_window": 9,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 1_000_000.0, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
            },
        },
    ),
}


@pytest.fixture(scope="module", params=CASES, ids=lambda name: name.replace(" ", "-").replace(",", ""))
def case(request, tmp_path_factory):
    """Runner factory, tokens, and transformers' logits."""
    architecture, config = CASES[request.param]
    folder = write_tiny_folder(tmp_path_factory.mktemp("model"), architecture, seed=3, **config)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.set_attn_implementation("eager")
    checkpoint = open_checkpoint(folder)
    tokens = np.random.default_rng(5).integers(0, checkpoint.config.vocab_size, TOKENS).tolist()
    with torch.no_grad():
        expected = model(torch.tensor([tokens])).logits[0].numpy()
    program = build_program(checkpoint)

    def runner(**options: Any) -> ReferenceRunner:
        return ReferenceRunner(program, lambda name: dequantize(checkpoint.tensors[name]), **options)

    return runner, tokens, expected


def test_prefill_in_one_go(case):
    runner, tokens, expected = case
    (logits,) = runner().forward([Chunk(0, 0, tokens, "all")])
    assert np.abs(logits - expected).max() < 1e-4


def test_chunked_prefill_then_decode(case):
    runner, tokens, expected = case
    run = runner()
    got = [
        run.forward([Chunk(0, 0, tokens[:17], "all")])[0],
        run.forward([Chunk(0, 17, tokens[17:60], "all")])[0],
    ]
    got += [run.forward([Chunk(0, i, [tokens[i]])])[0] for i in range(60, TOKENS)]
    assert np.abs(np.concatenate(got) - expected).max() < 1e-4


def test_float64_is_nearer_still(case):
    runner, tokens, expected = case
    (logits,) = runner(dtype=np.float64).forward([Chunk(0, 0, tokens, "all")])
    assert logits.dtype == np.float64
    assert np.abs(logits - expected).max() < 1e-4
