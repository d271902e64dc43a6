"""Which tensors each architecture has, and their shapes; a checkpoint that disagrees is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tenfold.checkpoints.checkpoint import ModelConfig, Tensor
from tenfold.checkpoints.storage import FLOAT_TYPES
from tenfold.core.errors import CheckpointError, UnsupportedModelError

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")
"""Architectures that are built, by GGUF's names."""

MAX_LAYERS = 1024

_LAYER = re.compile(r"blk\.(\d+)\.(.+)")
_ATTENTION_BIASES = ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias")
_UNUSED = re.compile(r"blk\.\d+\.attn_rot_embd(\.weight)?|rope_freqs\.weight")


def unsupported_architecture(file: object, name: object) -> UnsupportedModelError:
    """The error for an architecture that is not built."""
    return UnsupportedModelError(
        f"{file}: the architecture {name!r:.100} is not supported; supported: {', '.join(ARCHITECTURES)}"
    )


def required_shapes(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor that a model of this configuration must have."""
    hidden = config.hidden_size
    yield "token_embd.weight", (config.vocab_size, hidden)
    yield "output_norm.weight", (hidden,)
    if not config.tie_embeddings:
        yield "output.weight", (config.vocab_size, hidden)
    layer = dict(_layer_shapes(config))
    for index in range(config.num_layers):
        for suffix, shape in layer.items():
            yield f"blk.{index}.{suffix}", shape


def _layer_shapes(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, inner = config.hidden_size, config.intermediate_size
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    yield "attn_norm.weight", (hidden,)
    yield "attn_q.weight", (q, hidden)
    yield "attn_k.weight", (kv, hidden)
    yield "attn_v.weight", (kv, hidden)
    yield "attn_output.weight", (hidden, q)
    yield "ffn_norm.weight", (hidden,)
    yield "ffn_gate.weight", (inner, hidden)
    yield "ffn_up.weight", (inner, hidden)
    yield "ffn_down.weight", (hidden, inner)
    if config.architecture == "qwen2":
        yield "attn_q.bias", (q,)
        yield "attn_k.bias", (kv,)
        yield "attn_v.bias", (kv,)
    if config.architecture in ("qwen3", "gemma3"):
        yield "attn_q_norm.weight", (config.head_dim,)
        yield "attn_k_norm.weight", (config.head_dim,)
    if config.architecture == "gemma3":
        yield "post_attention_norm.weight", (hidden,)
        yield "post_ffw_norm.weight", (hidden,)


def check_tensors(file: object, config: ModelConfig, tensors: Mapping[str, Tensor]) -> None:
    """Check that the tensors are those of the configuration.

    Optional are biases of the attention projections and, for `rope_factors`, its tensor.

    Raises:
        CheckpointError: a tensor is missing, has another shape, is quantized although it is a vector, or has
            no place in the architecture (leaving it out would give wrong text without a word).
    """
    shapes = dict(required_shapes(config))
    optional = _optional_shapes(config)
    for name, shape in shapes.items():
        tensor = tensors.get(name)
        if tensor is None:
            raise CheckpointError(file, f"this tensor of {config.architecture} is missing", tensor=name)
        _check_shape(tensor, shape)
    for name, tensor in tensors.items():
        if name in shapes:
            continue
        if name in optional:
            _check_shape(tensor, optional[name])
            continue
        match = _LAYER.fullmatch(name)
        if match and match[2] in optional and int(match[1]) < config.num_layers:
            _check_shape(tensor, optional[match[2]])
        elif not _UNUSED.fullmatch(name) and not (config.tie_embeddings and name == "output.weight"):
            raise CheckpointError(
                tensor.file,
                f"it has no place in the architecture {config.architecture} with {config.num_layers} layers",
                tensor=name,
                offset=tensor.offset,
            )


def _optional_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Shapes of optional tensors, those in layers by their suffix."""
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = dict(
        zip(_ATTENTION_BIASES, ((q,), (kv,), (kv,), (config.hidden_size,)), strict=True)
    )
    if config.rope_factors is not None:
        shapes[config.rope_factors] = ((config.rotary_dim or config.head_dim) // 2,)
    return shapes


def _check_shape(tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tensor.shape != shape:
        raise CheckpointError(
            tensor.file,
            f"its shape is {tensor.shape}, but the model's hyperparameters make it {shape}",
            tensor=tensor.name,
            offset=tensor.offset,
        )
    if len(shape) == 1 and tensor.type not in FLOAT_TYPES:
        raise CheckpointError(
            tensor.file,
            f"it is a vector of type {tensor.type.name}; vectors must be F32, F16 or BF16",
            tensor=tensor.name,
            offset=tensor.offset,
        )
