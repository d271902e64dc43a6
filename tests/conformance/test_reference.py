"""The reference interpreter against transformers in float32, on tiny random models of every architecture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenfold.checkpoints.checkpoint import ModelConfig, RopeScaling
from tenfold.models.build import build_program
from tenfold.program.reference import Chunk, ReferenceRunner
from tests.memory_checkpoint import MemoryCheckpoint
from tests.tiny_models import write_tiny_folder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.conformance

TOKENS = 80

NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def canonical(name: str, gemma: bool) -> str:
    if name in NAMES:
        return NAMES[name]
    _, _, layer, *rest = name.split(".")
    stem, kind = ".".join(rest[:-1]), rest[-1]
    if stem == "post_attention_layernorm":
        stem = "post_attention_norm" if gemma else "ffn_norm"
    return f"blk.{layer}.{NAMES.get(stem, stem)}.{kind}"


def memory_checkpoint(folder: Path, model: Any) -> MemoryCheckpoint:
    raw = json.loads((folder / "config.json").read_text())
    gemma = raw["model_type"] == "gemma3_text"
    rope = raw["rope_parameters"]
    main = rope["full_attention"] if gemma else rope
    scaling = None
    if main["rope_type"] != "default":
        scaling = RopeScaling(
            kind=main["rope_type"],
            factor=main["factor"],
            original_context=main.get("original_max_position_embeddings", 0),
            low_freq_factor=main.get("low_freq_factor", 1.0),
            high_freq_factor=main.get("high_freq_factor", 4.0),
            beta_fast=main.get("beta_fast") or 32.0,
            beta_slow=main.get("beta_slow") or 1.0,
            attention_factor=main.get("attention_factor"),
        )
    config = ModelConfig(
        architecture={"gemma3_text": "gemma3", "mistral": "llama"}.get(raw["model_type"], raw["model_type"]),
        vocab_size=raw["vocab_size"],
        hidden_size=raw["hidden_size"],
        num_layers=raw["num_hidden_layers"],
        num_heads=raw["num_attention_heads"],
        num_kv_heads=raw["num_key_value_heads"],
        head_dim=raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"],
        intermediate_size=raw["intermediate_size"],
        context_length=raw["max_position_embeddings"],
        rms_norm_eps=raw["rms_norm_eps"],
        rope_theta=main["rope_theta"],
        rope_theta_local=rope["sliding_attention"]["rope_theta"] if gemma else None,
        rope_scaling=scaling,
        sliding_window=raw.get("sliding_window") if raw["model_type"] in ("mistral", "gemma3_text") else None,
        global_every=6 if gemma else 0,
        attention_scale=raw["query_pre_attn_scalar"] ** -0.5 if gemma else None,
        norm_offset=1.0 if gemma else 0.0,
        tie_embeddings=raw["tie_word_embeddings"],
        activation="gelu_tanh" if gemma else "silu",
    )
    tied = config.tie_embeddings
    return MemoryCheckpoint(
        config,
        {
            canonical(name, gemma): weight.numpy()
            for name, weight in model.state_dict().items()
            if not (tied and name == "lm_head.weight")
        },
    )


def rope(kind: str, **fields: float) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10_000.0, **fields}}


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
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
    checkpoint = memory_checkpoint(folder, model)
    tokens = np.random.default_rng(5).integers(0, checkpoint.config.vocab_size, TOKENS).tolist()
    with torch.no_grad():
        expected = model(torch.tensor([tokens])).logits[0].numpy()
    program = build_program(checkpoint)
    return lambda **options: ReferenceRunner(program, checkpoint.arrays, **options), tokens, expected


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
