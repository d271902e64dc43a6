"""A Program: one model's forward pass as a flat tuple of ops, with its buffers, weights and KV layout."""

from __future__ import annotations

import msgspec

from tenfold.program.op import Op, RopeSpec


class WeightSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A weight of a Program and the checkpoint tensor it comes from.

    Args:
        tensor: canonical tensor name in the checkpoint.
        shape: (out_features, in_features) for matrices, (n,) for vectors.
        offset: added to every element (norm weights stored without their 1); vectors only.
    """

    tensor: str
    shape: tuple[int, ...]
    offset: float = 0.0


class LayerKV(msgspec.Struct, frozen=True):
    """KV geometry of one layer; `window` is None for full attention."""

    num_kv_heads: int
    head_dim: int
    window: int | None = None


class KVLayout(msgspec.Struct, frozen=True):
    """KV geometry of all layers; keys and values are bfloat16."""

    layers: tuple[LayerKV, ...]

    @property
    def bytes_per_token(self) -> int:
        """Bytes of K and V that one token holds over all layers."""
        return sum(2 * 2 * layer.num_kv_heads * layer.head_dim for layer in self.layers)


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """One model's forward pass.

    Args:
        name: for people.
        ops: in order of execution.
        buffers: name to width in float32 elements a token.
        weights: name to its source.
        ropes: rotary tables by name.
        kv: KV geometry.
        vocab_size: width of the logits.
        context_length: positions the model was made for.
    """

    name: str
    ops: tuple[Op, ...]
    buffers: dict[str, int]
    weights: dict[str, WeightSpec]
    ropes: dict[str, RopeSpec]
    kv: KVLayout
    vocab_size: int
    context_length: int
