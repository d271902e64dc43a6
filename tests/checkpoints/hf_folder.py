"""Tiny Hugging Face folders, written without transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tests import tiny_tokenizer

CONFIGS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {"hidden_act": "silu", "rope_theta": 5e5},
    "MistralForCausalLM": {"hidden_act": "silu", "sliding_window": 64, "head_dim": 16},
    "Qwen2ForCausalLM": {"hidden_act": "silu", "use_sliding_window": False, "sliding_window": 64},
    "Qwen3ForCausalLM": {"hidden_act": "silu", "head_dim": 32},
    "Gemma3ForCausalLM": {
        "hidden_activation": "gelu_pytorch_tanh",
        "head_dim": 32,
        "sliding_window": 64,
        "query_pre_attn_scalar": 64,
        "num_hidden_layers": 6,
        "tie_word_embeddings": True,
    },
}
SIZES = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def config(architecture: str, **changes: Any) -> dict[str, Any]:
    """A config.json; a change to None leaves the field out."""
    fields = {"architectures": [architecture], **SIZES, **CONFIGS[architecture], **changes}
    return {key: value for key, value in fields.items() if value is not None}


def tensors(settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """Random float16 weights with transformers' names."""
    hidden, inner = settings["hidden_size"], settings["intermediate_size"]
    heads, kv_heads = settings["num_attention_heads"], settings["num_key_value_heads"]
    dim = settings.get("head_dim", hidden // heads)
    kind = settings["architectures"][0]
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (settings["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
    }
    if not settings.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = (settings["vocab_size"], hidden)
    for layer in range(settings["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes |= {
            f"{at}self_attn.q_proj.weight": (heads * dim, hidden),
            f"{at}self_attn.k_proj.weight": (kv_heads * dim, hidden),
            f"{at}self_attn.v_proj.weight": (kv_heads * dim, hidden),
            f"{at}self_attn.o_proj.weight": (hidden, heads * dim),
            f"{at}mlp.gate_proj.weight": (inner, hidden),
            f"{at}mlp.up_proj.weight": (inner, hidden),
            f"{at}mlp.down_proj.weight": (hidden, inner),
            f"{at}input_layernorm.weight": (hidden,),
            f"{at}post_attention_layernorm.weight": (hidden,),
        }
        if kind == "Qwen2ForCausalLM":
            shapes |= {f"{at}self_attn.q_proj.bias": (heads * dim,)}
            shapes |= {f"{at}self_attn.{name}_proj.bias": (kv_heads * dim,) for name in "kv"}
        if kind in ("Qwen3ForCausalLM", "Gemma3ForCausalLM"):
            shapes |= {f"{at}self_attn.{name}_norm.weight": (dim,) for name in "qk"}
        if kind == "Gemma3ForCausalLM":
            shapes |= {f"{at}{place}_feedforward_layernorm.weight": (hidden,) for place in ("pre", "post")}
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()}


def write_folder(folder: Path, architecture: str, *, shards: int = 1, **changes: Any) -> Path:
    """A whole folder; `changes` are to config.json."""
    folder.mkdir(exist_ok=True)
    settings = config(architecture, **changes)
    write_json(folder / "config.json", settings)
    weights = tensors({**SIZES, **CONFIGS[architecture], "architectures": [architecture], **changes})
    if shards == 1:
        save_file(weights, folder / "model.safetensors")
    else:
        places = {name: f"model-{index % shards}.safetensors" for index, name in enumerate(weights)}
        for shard in set(places.values()):
            save_file({name: weights[name] for name in weights if places[name] == shard}, folder / shard)
        write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})
    (folder / "tokenizer.json").write_text(tiny_tokenizer.tokenizer_json(300))
    write_json(folder / "tokenizer_config.json", {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"})
    return folder


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))
