"""From a checkpoint to its checked and packed Program."""

from __future__ import annotations

from tenfold.checkpoints.checkpoint import Checkpoint
from tenfold.core.errors import UnsupportedModelError
from tenfold.models.registry import builder_for
from tenfold.program.passes.merge_ropes import merge_ropes
from tenfold.program.passes.pack_linears import pack_linears
from tenfold.program.program import Program
from tenfold.program.validate import check_program


def build_program(checkpoint: Checkpoint) -> Program:
    """Build, pack and check the Program of a checkpoint.

    Q, K and V are one Linear into the buffer "qkv", gate and up one into "gate_up".

    Raises:
        UnsupportedModelError: an architecture, or a feature of it, that is not built.
        CheckpointError: a tensor is missing or misshapen, or hyperparameters contradict each other.
    """
    config = checkpoint.config
    build = builder_for(config.architecture)
    if any(name.endswith(".ffn_gate_inp.weight") for name in checkpoint.tensors):
        raise UnsupportedModelError(
            f"{checkpoint.path}: a mixture of experts of {config.architecture} is not supported"
        )
    program = merge_ropes(pack_linears(build(checkpoint)))
    check_program(program)
    return program
