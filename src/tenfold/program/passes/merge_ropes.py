"""Join rotations of neighbouring heads, so that Q and K of a packed projection are rotated by one op."""

from __future__ import annotations

import msgspec

from tenfold.program.op import Op, Rope, View
from tenfold.program.program import Program


def merge_ropes(program: Program) -> Program:
    """Join neighbouring Rope ops of one table over neighbouring columns of one buffer."""
    ops: list[Op] = []
    for op in program.ops:
        last = ops[-1] if ops else None
        if isinstance(op, Rope) and isinstance(last, Rope) and _joinable(last, op):
            joined = View(last.x.buffer, last.x.start, last.x.width + op.x.width)
            ops[-1] = Rope(joined, last.head_dim, last.rope)
        else:
            ops.append(op)
    return msgspec.structs.replace(program, ops=tuple(ops))


def _joinable(first: Rope, second: Rope) -> bool:
    return (
        first.rope == second.rope
        and first.head_dim == second.head_dim
        and first.x.buffer == second.x.buffer
        and first.x.start + first.x.width == second.x.start
    )
