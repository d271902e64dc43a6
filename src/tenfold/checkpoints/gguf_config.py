"""ModelConfig from GGUF metadata. Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tenfold.checkpoints.checkpoint import ModelConfig, RopeScaling, Tensor
from tenfold.checkpoints.fields import Fields
from tenfold.checkpoints.layout import ARCHITECTURES, MAX_LAYERS, unsupported_architecture
from tenfold.checkpoints.windows import global_every
from tenfold.core.errors import CheckpointError, UnsupportedModelError

_ROPE_FACTORS = "rope_freqs.weight"
_GEMMA3_PATTERN = 6
_GEMMA3_27B_LAYERS = 62


def read_config(fields: Fields, tensors: Mapping[str, Tensor]) -> ModelConfig:
    """Normalize a GGUF file's hyperparameters.

    Args:
        fields: the file's metadata.
        tensors: its tensors; the embedding gives the vocabulary's size.

    Raises:
        UnsupportedModelError: the architecture, or a feature it uses, is not built.
        CheckpointError: a hyperparameter is missing, absurd or contradicts another.
    """
    arch = fields.text("general.architecture")
    if arch not in ARCHITECTURES:
        raise unsupported_architecture(fields.file, arch)
    _refuse_features(fields, arch)
    hidden = fields.integer(f"{arch}.embedding_length", low=1, high=1 << 20)
    heads = fields.integer(f"{arch}.attention.head_count", low=1, high=4096)
    kv_heads = fields.integer(f"{arch}.attention.head_count_kv", heads, low=1, high=4096)
    if heads % kv_heads:
        raise fields.error(
            f"{arch}.attention.head_count_kv", f"is {kv_heads}, which does not divide {heads} heads"
        )
    head_dim = _head_dim(fields, arch, hidden, heads)
    rotary = fields.integer(f"{arch}.rope.dimension_count", head_dim, low=2, high=head_dim)
    if rotary % 2:
        raise fields.error(f"{arch}.rope.dimension_count", f"is {rotary}, which is odd")
    gemma = arch == "gemma3"
    layers = fields.integer(f"{arch}.block_count", low=1, high=MAX_LAYERS)
    context = fields.integer(f"{arch}.context_length", low=1, high=1 << 24)
    scaling, context = _rope_scaling(fields, arch, context)
    window, every = _sliding_window(fields, arch, layers)
    softcap = f"{arch}.final_logit_softcapping"
    return ModelConfig(
        architecture=arch,
        vocab_size=_vocab_size(fields, arch, tensors),
        hidden_size=hidden,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=fields.integer(f"{arch}.feed_forward_length", low=1, high=1 << 24),
        context_length=context,
        rms_norm_eps=fields.number(f"{arch}.attention.layer_norm_rms_epsilon", high=1.0),
        rope_theta=fields.number(f"{arch}.rope.freq_base", 1e6 if gemma else 1e4),
        rope_theta_local=fields.number(f"{arch}.rope.freq_base_swa", 1e4) if gemma else None,
        rope_scaling=scaling,
        rope_interleaved=arch == "llama",
        rotary_dim=None if rotary == head_dim else rotary,
        sliding_window=window,
        global_every=every,
        attention_scale=_attention_scale(fields, arch, layers, hidden, heads),
        tie_embeddings="output.weight" not in tensors,
        activation="gelu_tanh" if gemma else "silu",
        logit_softcap=fields.number(softcap) if fields.has(softcap) else None,
        rope_factors=_ROPE_FACTORS if _ROPE_FACTORS in tensors else None,
    )


def _refuse_features(fields: Fields, arch: str) -> None:
    """Refuse what would otherwise be ignored and give wrong text."""
    if fields.integer(f"{arch}.expert_count", 0) > 0:
        raise UnsupportedModelError(f"{fields.file}: mixture-of-experts models of {arch} are not supported")
    if fields.has(f"{arch}.attn_logit_softcapping"):
        raise UnsupportedModelError(f"{fields.file}: attention logit soft-capping is not supported")
    if fields.integer("split.count", 1) > 1:
        raise UnsupportedModelError(
            f"{fields.file}: this is one part of a split GGUF; merge the parts with "
            "`llama-gguf-split --merge` first"
        )


def _head_dim(fields: Fields, arch: str, hidden: int, heads: int) -> int:
    key = f"{arch}.attention.key_length"
    if not fields.has(key) and hidden % heads:
        raise fields.error(f"{arch}.attention.head_count", f"is {heads}, which does not divide {hidden}")
    head_dim = fields.integer(key, hidden // heads or None, low=2, high=4096)
    if head_dim % 2:
        raise fields.error(
            key if fields.has(key) else f"{arch}.attention.head_count",
            f"gives heads of the odd size {head_dim}",
        )
    value_key = f"{arch}.attention.value_length"
    if fields.integer(value_key, head_dim) != head_dim:
        raise fields.error(value_key, f"differs from the key length {head_dim}, which is not supported")
    return head_dim


def _vocab_size(fields: Fields, arch: str, tensors: Mapping[str, Tensor]) -> int:
    embedding = tensors.get("token_embd.weight")
    if embedding is None:
        raise CheckpointError(fields.file, f"this tensor of {arch} is missing", tensor="token_embd.weight")
    rows = embedding.shape[0]
    key = f"{arch}.vocab_size"
    if fields.integer(key, rows, low=1, high=1 << 26) != rows:
        raise fields.error(key, f"is {fields.values[key]}, but token_embd.weight has {rows} rows")
    return rows


def _sliding_window(fields: Fields, arch: str, layers: int) -> tuple[int | None, int]:
    """The window and which layers go without: see ModelConfig."""
    window = fields.integer(f"{arch}.attention.sliding_window", 0)
    if window == 0:
        return None, 0
    key = f"{arch}.attention.sliding_window_pattern"
    pattern = fields.values.get(key)
    if isinstance(pattern, np.ndarray) and pattern.ndim == 1 and pattern.size == layers:
        return window, global_every(fields, key, [not windowed for windowed in pattern.tolist()])
    if pattern is not None:
        return window, fields.integer(key, high=MAX_LAYERS)
    return window, _GEMMA3_PATTERN if arch == "gemma3" else 0


def _attention_scale(fields: Fields, arch: str, layers: int, hidden: int, heads: int) -> float | None:
    """The scale of attention scores where it is not 1/sqrt(head_dim).

    Gemma 3 27B's is 1/sqrt(hidden_size / heads) without a word in its metadata; its 62 layers tell it.
    """
    key = f"{arch}.attention.scale"
    if fields.has(key):
        return fields.number(key)
    if arch == "gemma3" and layers == _GEMMA3_27B_LAYERS:
        return float((hidden / heads) ** -0.5)
    return None


def _rope_scaling(fields: Fields, arch: str, context: int) -> tuple[RopeScaling | None, int]:
    """RoPE scaling and the context length it makes."""
    prefix = f"{arch}.rope.scaling"
    kind = fields.text(f"{prefix}.type", "none")
    factor = fields.number(f"{prefix}.factor", fields.number(f"{arch}.rope.scale_linear", 1.0), high=1e6)
    if kind == "none" and fields.has(f"{arch}.rope.scale_linear") and factor != 1.0:
        kind = "linear"
    if kind == "none":
        return None, context
    if kind == "linear":
        return RopeScaling(kind="linear", factor=factor), context
    if kind != "yarn":
        raise UnsupportedModelError(
            f"{fields.file}: the RoPE scaling {kind!r:.60} is not supported; supported: linear, yarn, llama3"
        )
    original = fields.integer(f"{prefix}.original_context_length", context, low=1, high=1 << 24)
    scaling = RopeScaling(
        kind="yarn",
        factor=factor,
        original_context=original,
        beta_fast=fields.number(f"{prefix}.yarn_beta_fast", 32.0),
        beta_slow=fields.number(f"{prefix}.yarn_beta_slow", 1.0),
        attention_factor=_yarn_attention_factor(fields, prefix, factor),
    )
    return scaling, min(max(context, int(original * factor)), 1 << 24)


def _yarn_attention_factor(fields: Fields, prefix: str, factor: float) -> float | None:
    """GGUF's factor multiplies yarn's own 1 + 0.1 ln(factor); ModelConfig's replaces it."""
    for key in (f"{prefix}.yarn_attn_factor", f"{prefix}.attn_factor"):
        if fields.has(key):
            own = 1.0 + 0.1 * float(np.log(factor)) if factor > 1 else 1.0
            return fields.number(key, high=1e3) * own
    return None
