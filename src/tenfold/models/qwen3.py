"""Qwen3 (dense): Llama with RMS norms over each head of Q and K."""

from __future__ import annotations

from tenfold.checkpoints.checkpoint import Checkpoint
from tenfold.models import layers
from tenfold.models.builder import ProgramBuilder
from tenfold.program.program import Program


def build(checkpoint: Checkpoint) -> Program:
    """The Program of a Qwen3 checkpoint.

    Raises:
        CheckpointError: a tensor is missing or misshapen.
    """
    b = ProgramBuilder(checkpoint)
    rope = b.rope("rope", b.config.rope_theta)
    layers.embed(b)
    for layer in range(b.config.num_layers):
        layers.pre_norm_layer(b, layer, rope=rope, head_norms=True)
    return layers.logits(b)
