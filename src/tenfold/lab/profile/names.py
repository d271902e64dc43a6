"""What ops are called in a profile, and which part of the model they belong to."""

from __future__ import annotations

import re

from tenfold.program.op import Add, Attention, Embed, GatedActivation, Linear, Logits, Op, RmsNorm, Rope
from tenfold.program.program import Program

EMBEDDING, OUTPUT = "embedding", "output"
_LAYER = re.compile(r"^blk\.(\d+)\.")


def op_name(program: Program, op: Op) -> str:
    """A short name without the layer's number, such as "linear attn_q attn_k attn_v"."""
    match op:
        case Embed() | Logits():
            return f"{type(op).__name__.lower()} {_role(program, op.weight)}"
        case RmsNorm():
            return f"rms_norm {_role(program, op.weight)}"
        case Linear():
            return f"linear {' '.join(_role(program, name) for name in op.weights)}"
        case Rope():
            return "rope"
        case Attention():
            return "attention" if op.window is None else f"attention, window {op.window}"
        case GatedActivation():
            return f"{op.kind} gate * up"
        case Add():
            return "add"


def places(program: Program) -> list[str]:
    """For each op, where it belongs: "embedding", "layer 0", ..., "output"."""
    place, found = EMBEDDING, []
    for op in program.ops:
        layer = _layer(program, op)
        if layer is not None:
            place = f"layer {layer}"
        elif isinstance(op, Logits) or (isinstance(op, RmsNorm) and place != EMBEDDING):
            place = OUTPUT
        found.append(place)
    return found


def _layer(program: Program, op: Op) -> int | None:
    if isinstance(op, Attention):
        return op.layer
    weight = op.weight if isinstance(op, (Embed, Logits, RmsNorm)) else ""
    if isinstance(op, Linear):
        weight = op.weights[0]
    match = _LAYER.match(program.weights[weight].tensor) if weight else None
    return int(match[1]) if match else None


def _role(program: Program, weight: str) -> str:
    return _LAYER.sub("", program.weights[weight].tensor).removesuffix(".weight")
