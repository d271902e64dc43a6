"""Gemma 3, text: scaled embeddings, norms before and after a sublayer, windows in most layers."""

from __future__ import annotations

import math

from tenfold.checkpoints.checkpoint import Checkpoint
from tenfold.models import layers
from tenfold.models.builder import ProgramBuilder
from tenfold.program.program import Program

_LOCAL_THETA = 10_000.0  # of the layers with a window, where a checkpoint does not say


def build(checkpoint: Checkpoint) -> Program:
    """The Program of a Gemma 3 checkpoint.

    Layers with a window have a rotary base of their own, which is never stretched.

    Raises:
        CheckpointError: a tensor is missing or misshapen.
    """
    b = ProgramBuilder(checkpoint)
    b.rope("global", b.config.rope_theta)
    local_theta = b.config.rope_theta_local
    b.rope("local", _LOCAL_THETA if local_theta is None else local_theta, scaled=False)
    layers.embed(b, scale=math.sqrt(b.config.hidden_size))
    for layer in range(b.config.num_layers):
        rope = "global" if b.window(layer) is None else "local"
        layers.norm(b, f"blk.{layer}.attn_norm.weight", "x", "h")
        layers.attend(b, layer, rope=rope, head_norms=True)
        layers.project(
            b,
            f"blk.{layer}.attn_output",
            "attn",
            post_norm=f"blk.{layer}.post_attention_norm.weight",
        )
        layers.norm(b, f"blk.{layer}.ffn_norm.weight", "x", "h")
        layers.gate(b, layer)
        layers.project(b, f"blk.{layer}.ffn_down", "act", post_norm=f"blk.{layer}.post_ffw_norm.weight")
    return layers.logits(b)
