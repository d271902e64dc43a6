"""A checkpoint whose tensors are float32 arrays in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tenfold.checkpoints.checkpoint import ModelConfig, Tensor, TensorType, TokenizerSource

Array = npt.NDArray[Any]


class MemoryCheckpoint:
    """Satisfies the Checkpoint protocol; `arrays` also serves as the weights of a ReferenceRunner."""

    def __init__(self, config: ModelConfig, arrays: Mapping[str, Array]) -> None:
        self.config = config
        self.arrays = dict(arrays)
        self.path = Path("memory")
        self.name = f"memory {config.architecture}"
        self.tokenizer = TokenizerSource()
        self.generation_defaults: dict[str, float | int] = {}

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return {
            name: Tensor(name, TensorType.F32, array.shape, _raw(array), "memory", 0)
            for name, array in self.arrays.items()
        }


def _raw(array: Array) -> npt.NDArray[np.uint8]:
    return np.frombuffer(np.ascontiguousarray(array, np.float32).tobytes(), np.uint8)


def tiny_config(architecture: str, **changes: Any) -> ModelConfig:
    """Hyperparameters of a model of two layers (Gemma 3: six)."""
    gemma = architecture == "gemma3"
    config = ModelConfig(
        architecture=architecture,
        vocab_size=50,
        hidden_size=24,
        num_layers=6 if gemma else 2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        intermediate_size=40,
        context_length=512,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        sliding_window=5 if gemma else None,
        global_every=6 if gemma else 0,
        tie_embeddings=gemma,
        activation="gelu_tanh" if gemma else "silu",
    )
    return msgspec.structs.replace(config, **changes)


def tiny_arrays(config: ModelConfig, seed: int = 0) -> dict[str, Array]:
    """Random weights for a config, by canonical names."""
    hidden, ffn = config.hidden_size, config.intermediate_size
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (config.vocab_size, hidden),
        "output_norm.weight": (hidden,),
    }
    if not config.tie_embeddings:
        shapes["output.weight"] = (config.vocab_size, hidden)
    for i in range(config.num_layers):
        layer: dict[str, tuple[int, ...]] = {
            "attn_norm.weight": (hidden,),
            "ffn_norm.weight": (hidden,),
            "attn_q.weight": (q, hidden),
            "attn_k.weight": (kv, hidden),
            "attn_v.weight": (kv, hidden),
            "attn_output.weight": (hidden, q),
            "ffn_gate.weight": (ffn, hidden),
            "ffn_up.weight": (ffn, hidden),
            "ffn_down.weight": (hidden, ffn),
        }
        if config.architecture == "qwen2":
            layer |= {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
        if config.architecture in ("qwen3", "gemma3"):
            layer |= {"attn_q_norm.weight": (config.head_dim,), "attn_k_norm.weight": (config.head_dim,)}
        if config.architecture == "gemma3":
            layer |= {"post_attention_norm.weight": (hidden,), "post_ffw_norm.weight": (hidden,)}
        shapes |= {f"blk.{i}.{name}": shape for name, shape in layer.items()}
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(np.float32) * 0.4 for name, shape in shapes.items()}


def tiny_checkpoint(architecture: str, seed: int = 0, **changes: Any) -> MemoryCheckpoint:
    """A tiny random checkpoint; `changes` replace hyperparameters."""
    config = tiny_config(architecture, **changes)
    return MemoryCheckpoint(config, tiny_arrays(config, seed))
