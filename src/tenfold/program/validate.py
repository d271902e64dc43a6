"""check_program: does a Program hang together? Run after building and after every chain of passes."""

from __future__ import annotations

import math

from tenfold.program.op import (
    Add,
    Attention,
    Embed,
    GatedActivation,
    Linear,
    Logits,
    Op,
    RmsNorm,
    Rope,
    View,
)
from tenfold.program.program import Program


class ProgramError(ValueError):
    """A Program contradicts itself: a mistake of the code that built or rewrote it, not of a user."""


def check_program(program: Program) -> None:
    """Check names, widths, views, layers, rotary tables, and that columns are written before they are read.

    Raises:
        ProgramError: a sentence that names the op, by its number, and what is wrong with it.
    """
    checker = _Checker(program)
    for index, op in enumerate(program.ops):
        try:
            checker.check(op)
        except ProgramError as error:
            raise ProgramError(
                f"program {program.name!r}, op {index} ({type(op).__name__}): {error}"
            ) from None
    try:
        checker.check_whole()
    except ProgramError as error:
        raise ProgramError(f"program {program.name!r}: {error}") from None


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise ProgramError(sentence)


class _Checker:
    """Walks the ops once; remembers which columns have been written and which layers have attended."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._written = {name: bytearray(width) for name, width in program.buffers.items()}
        self._layers: set[int] = set()

    def check(self, op: Op) -> None:
        match op:
            case Embed():
                self._embed(op)
            case RmsNorm():
                self._rms_norm(op)
            case Linear():
                self._linear(op)
            case Rope():
                self._rope(op)
            case Attention():
                self._attention(op)
            case GatedActivation():
                self._read(op.gate)
                self._read(op.up)
                _require(
                    op.gate.width == op.up.width == op.out.width,
                    f"gate, up and out are {op.gate.width}, {op.up.width} and {op.out.width} wide, not alike",
                )
                self._write(op.out)
            case Add():
                self._read(op.x)
                self._read(op.out)
                _require(op.x.width == op.out.width, f"x is {op.x.width} wide, but out {op.out.width}")
                self._apart(op.x, op.out)
            case Logits():
                self._read(op.x)
                self._weight(op.weight, (self._program.vocab_size, op.x.width))
                _require(op.softcap is None or op.softcap > 0, f"the softcap {op.softcap} is not positive")

    def _embed(self, op: Embed) -> None:
        _require(op.out in self._program.buffers, f"there is no buffer {op.out!r}")
        width = self._program.buffers[op.out]
        self._weight(op.weight, (self._program.vocab_size, width))
        self._write(View(op.out, 0, width))

    def _rms_norm(self, op: RmsNorm) -> None:
        self._read(op.x)
        _require(op.x.width == op.out.width, f"x is {op.x.width} wide, but out {op.out.width}")
        if op.head_dim is not None:
            self._heads(op.x, op.head_dim)
        _require(op.x == op.out or not _overlap(op.x, op.out), "out overlaps x without being x")
        _require(op.eps > 0, f"eps {op.eps} is not positive")
        self._weight(op.weight, (op.head_dim or op.x.width,))
        self._write(op.out)

    def _linear(self, op: Linear) -> None:
        self._read(op.x)
        _require(len(op.weights) > 0, "there is no weight")
        _require(
            len(op.weights) == len(op.biases),
            f"there are {len(op.weights)} weights and {len(op.biases)} places for biases",
        )
        rows = 0
        for weight, bias in zip(op.weights, op.biases, strict=True):
            shape = self._shape(weight)
            _require(
                len(shape) == 2 and shape[1] == op.x.width,
                f"the weight {weight!r} of shape {shape} does not take rows of {op.x.width}",
            )
            rows += shape[0]
            if bias is not None:
                self._weight(bias, (shape[0],))
        _require(rows == op.out.width, f"the weights give {rows} columns, but out is {op.out.width} wide")
        self._apart(op.x, op.out)
        if op.add:
            self._read(op.out)
        self._write(op.out)

    def _rope(self, op: Rope) -> None:
        self._read(op.x)
        self._heads(op.x, op.head_dim)
        _require(op.rope in self._program.ropes, f"there is no rotary table {op.rope!r}")
        rotary_dim = 2 * len(self._program.ropes[op.rope].inv_freq)
        _require(
            0 < rotary_dim <= op.head_dim,
            f"the rotary table {op.rope!r} turns {rotary_dim} elements of heads of {op.head_dim}",
        )

    def _attention(self, op: Attention) -> None:
        for view, heads in ((op.q, op.num_heads), (op.k, op.num_kv_heads), (op.v, op.num_kv_heads)):
            self._read(view)
            _require(
                view.width == heads * op.head_dim,
                f"{heads} heads of {op.head_dim} do not fill a view of {view.width}",
            )
        _require(op.out.width == op.q.width, f"out is {op.out.width} wide, but q {op.q.width}")
        _require(
            op.num_kv_heads > 0 and op.num_heads % op.num_kv_heads == 0,
            f"{op.num_heads} query heads cannot share {op.num_kv_heads} key-value heads",
        )
        layers = self._program.kv.layers
        _require(
            0 <= op.layer < len(layers), f"layer {op.layer} is not one of {len(layers)} of the KV layout"
        )
        _require(op.layer not in self._layers, f"layer {op.layer} attends a second time")
        kv = layers[op.layer]
        mine = (op.num_kv_heads, op.head_dim, op.window)
        theirs = (kv.num_kv_heads, kv.head_dim, kv.window)
        _require(mine == theirs, f"heads, head width and window {mine} differ from the KV layout's {theirs}")
        _require(op.window is None or op.window > 0, f"the window {op.window} is not positive")
        for view in (op.q, op.k, op.v):
            self._apart(view, op.out)
        self._layers.add(op.layer)
        self._write(op.out)

    def check_whole(self) -> None:
        program = self._program
        missing = set(range(len(program.kv.layers))) - self._layers
        _require(not missing, f"no op attends in layer {min(missing, default=0)} of the KV layout")
        logits = [index for index, op in enumerate(program.ops) if isinstance(op, Logits)]
        _require(
            logits == [len(program.ops) - 1],
            f"logits must be the last op and the only such, not ops {logits}",
        )
        for name, rope in program.ropes.items():
            finite = all(math.isfinite(value) for value in (*rope.inv_freq, rope.factor))
            _require(finite, f"the rotary table {name!r} has values that are not finite")

    def _check_view(self, view: View) -> None:
        _require(view.buffer in self._program.buffers, f"there is no buffer {view.buffer!r}")
        width = self._program.buffers[view.buffer]
        _require(
            view.width > 0 and 0 <= view.start <= width - view.width,
            f"columns {view.start} to {view.start + view.width} are not within {view.buffer!r}'s {width}",
        )

    def _read(self, view: View) -> None:
        self._check_view(view)
        written = self._written[view.buffer][view.start : view.start + view.width]
        _require(
            0 not in written,
            f"columns {view.start} to {view.start + view.width} of {view.buffer!r} are read before written",
        )

    def _write(self, view: View) -> None:
        self._check_view(view)
        self._written[view.buffer][view.start : view.start + view.width] = b"\x01" * view.width

    def _apart(self, x: View, out: View) -> None:
        _require(not _overlap(x, out), f"input and output overlap in the buffer {x.buffer!r}")

    def _heads(self, view: View, head_dim: int) -> None:
        whole = head_dim > 0 and view.width % head_dim == 0
        _require(whole, f"a view of {view.width} columns is not a whole number of heads of {head_dim}")

    def _shape(self, weight: str) -> tuple[int, ...]:
        _require(weight in self._program.weights, f"there is no weight {weight!r}")
        return self._program.weights[weight].shape

    def _weight(self, weight: str, expected: tuple[int, ...]) -> None:
        shape = self._shape(weight)
        _require(shape == expected, f"the weight {weight!r} has shape {shape} where {expected} is needed")


def _overlap(a: View, b: View) -> bool:
    return a.buffer == b.buffer and a.start < b.start + b.width and b.start < a.start + a.width
