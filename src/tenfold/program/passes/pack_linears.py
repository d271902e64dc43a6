"""Join linears of one input into one op, so that the input is read, and quantized, once."""

from __future__ import annotations

import msgspec

from tenfold.program.op import Linear, Op, View
from tenfold.program.program import Program


def pack_linears(program: Program) -> Program:
    """Join neighbouring Linear ops that read one view and write neighbouring columns of another buffer."""
    ops: list[Op] = []
    for op in program.ops:
        last = ops[-1] if ops else None
        if isinstance(op, Linear) and isinstance(last, Linear) and _joinable(last, op):
            ops[-1] = Linear(
                last.x,
                View(last.out.buffer, last.out.start, last.out.width + op.out.width),
                last.weights + op.weights,
                last.biases + op.biases,
                last.add,
            )
        else:
            ops.append(op)
    return msgspec.structs.replace(program, ops=tuple(ops))


def _joinable(first: Linear, second: Linear) -> bool:
    return (
        first.x == second.x
        and first.x.buffer != first.out.buffer
        and first.out.buffer == second.out.buffer
        and first.out.start + first.out.width == second.out.start
        and first.add == second.add
    )
