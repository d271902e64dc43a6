"""What a Program is made of, as data and as plain lines: ops with shapes, parameters, FLOPs, bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import msgspec

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


class OpSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One op.

    Args:
        index: its place in the Program.
        kind: the op's name.
        text: what it reads, with which weights, and where to.
        parameters: elements of the weights it names.
        flops: floating point operations a token, but for attention over the cache.
        flops_per_position: those that attention adds for each position a token sees.
    """

    index: int
    kind: str
    text: str
    parameters: int
    flops: int
    flops_per_position: int = 0


class PartSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The weights of one role, such as "ffn_down.weight", over all layers; `bytes` as stored, or None."""

    name: str
    tensors: int
    parameters: int
    bytes: int | None


class ProgramSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A Program in numbers.

    Args:
        name: the Program's.
        ops: in order.
        parts: weights by role, in order of first use.
        parameters: elements of all weights; a tied one counts once.
        weight_bytes: bytes of all weights as stored, or None if not known.
        flops_per_token: of one token, without attention over the cache.
        flops_per_position: what each cached position adds in the layers without a window.
        kv_bytes_per_token: bytes of keys and values that a token holds.
        layers: layers that attend.
        windowed_layers: those of them with a window.
        vocab_size: width of the logits.
        context_length: positions the model was made for.
        activation_bytes_per_token: bytes of the Program's buffers.
    """

    name: str
    ops: tuple[OpSummary, ...]
    parts: tuple[PartSummary, ...]
    parameters: int
    weight_bytes: int | None
    flops_per_token: int
    flops_per_position: int
    kv_bytes_per_token: int
    layers: int
    windowed_layers: int
    vocab_size: int
    context_length: int
    activation_bytes_per_token: int


def describe(program: Program, tensor_bytes: Mapping[str, int] | None = None) -> ProgramSummary:
    """Summarize a Program.

    Args:
        program: a checked Program.
        tensor_bytes: stored bytes by checkpoint tensor, for sums of bytes.
    """
    ops = tuple(_summarize(program, index, op) for index, op in enumerate(program.ops))
    tensors = {spec.tensor: math.prod(spec.shape) for spec in program.weights.values()}
    parts: dict[str, list[str]] = {}
    for tensor in tensors:
        parts.setdefault(_role(tensor), []).append(tensor)

    def stored(names: Sequence[str]) -> int | None:
        return None if tensor_bytes is None else sum(tensor_bytes[name] for name in names)

    return ProgramSummary(
        name=program.name,
        ops=ops,
        parts=tuple(
            PartSummary(
                name=role,
                tensors=len(names),
                parameters=sum(tensors[name] for name in names),
                bytes=stored(names),
            )
            for role, names in parts.items()
        ),
        parameters=sum(tensors.values()),
        weight_bytes=stored(list(tensors)),
        flops_per_token=sum(op.flops for op in ops),
        flops_per_position=sum(
            summary.flops_per_position
            for summary, op in zip(ops, program.ops, strict=True)
            if isinstance(op, Attention) and op.window is None
        ),
        kv_bytes_per_token=program.kv.bytes_per_token,
        layers=len(program.kv.layers),
        windowed_layers=sum(layer.window is not None for layer in program.kv.layers),
        vocab_size=program.vocab_size,
        context_length=program.context_length,
        activation_bytes_per_token=4 * sum(program.buffers.values()),
    )


def _role(tensor: str) -> str:
    return re.sub(r"^blk\.\d+\.", "", tensor)


def _weights(op: Op) -> tuple[str, ...]:
    match op:
        case Embed() | RmsNorm() | Logits():
            return (op.weight,)
        case Linear():
            return op.weights + tuple(bias for bias in op.biases if bias is not None)
        case _:
            return ()


def _summarize(program: Program, index: int, op: Op) -> OpSummary:
    def size(weight: str) -> int:
        return math.prod(program.weights[weight].shape)

    text, flops, per_position = "", 0, 0
    match op:
        case Embed():
            width = program.buffers[op.out]
            scaled = "" if op.scale == 1 else f" * {op.scale:g}"
            text, flops = f"{op.weight}{scaled} -> {op.out}[{width}]", 0 if op.scale == 1 else width
        case RmsNorm():
            heads = "" if op.head_dim is None else f", heads of {op.head_dim}"
            text, flops = f"{_view(op.x)} ({op.weight}{heads}) -> {_view(op.out)}", 4 * op.x.width
        case Linear():
            bias = " + bias" if any(op.biases) else ""
            arrow = "+=>" if op.add else "->"
            text = f"{_view(op.x)} @ {' | '.join(op.weights)}{bias} {arrow} {_view(op.out)}"
            flops = 2 * sum(size(weight) for weight in op.weights)
        case Rope():
            text = f"{_view(op.x)}, heads of {op.head_dim}, table {op.rope}"
            flops = 6 * len(program.ropes[op.rope].inv_freq) * (op.x.width // op.head_dim)
        case Attention():
            window = "" if op.window is None else f", window {op.window}"
            text = (
                f"layer {op.layer}: {op.num_heads} heads over {op.num_kv_heads} of {op.head_dim}{window}"
                f" -> {_view(op.out)}"
            )
            per_position = 4 * op.num_heads * op.head_dim
        case GatedActivation():
            text, flops = f"{op.kind}({_view(op.gate)}) * {_view(op.up)} -> {_view(op.out)}", 8 * op.out.width
        case Add():
            text, flops = f"{_view(op.x)} +=> {_view(op.out)}", op.x.width
        case Logits():
            text, flops = f"{_view(op.x)} @ {op.weight} -> [{program.vocab_size}]", 2 * size(op.weight)
    return OpSummary(
        index=index,
        kind=type(op).__name__,
        text=text,
        parameters=sum(size(weight) for weight in _weights(op)),
        flops=flops,
        flops_per_position=per_position,
    )


def _view(view: View) -> str:
    start = "" if view.start == 0 else f"{view.start}:+"
    return f"{view.buffer}[{start}{view.width}]"


def describe_lines(summary: ProgramSummary, *, all_ops: bool = False) -> list[str]:
    """The summary as plain text; layers that differ in number only are written once, unless `all_ops`."""
    windows = f", {summary.windowed_layers} of them with a window" if summary.windowed_layers else ""
    lines = [
        f"{summary.name}: {summary.parameters:,} parameters, {summary.layers} layers{windows}, "
        f"vocabulary {summary.vocab_size:,}, context {summary.context_length:,}",
        f"FLOPs a token: {summary.flops_per_token:,} + {summary.flops_per_position:,} a position seen",
        f"KV bytes a token: {summary.kv_bytes_per_token:,}; "
        f"activation bytes a token: {summary.activation_bytes_per_token:,}",
    ]
    if summary.weight_bytes is not None:
        bits = 8 * summary.weight_bytes / summary.parameters
        lines.append(f"weight bytes: {summary.weight_bytes:,} ({bits:.2f} bits a parameter)")
    lines += ["", "weights:"]
    for part in summary.parts:
        stored = "" if part.bytes is None else f" {part.bytes:>15,} bytes"
        lines.append(f"  {part.name:<28} {part.tensors:>4} x {part.parameters:>15,} parameters{stored}")
    return [*lines, "", "ops:", *_op_lines(summary.ops, all_ops)]


def _op_lines(ops: Sequence[OpSummary], all_ops: bool) -> list[str]:
    exact = [f"{op.kind:<15} {op.text}" for op in ops]
    if all_ops:
        return [f"  {line}" for line in exact]
    return _fold([re.sub(r"(?<=blk\.)\d+|(?<=layer )\d+", "*", line) for line in exact], exact, "  ")


def _fold(bodies: Sequence[str], exact: Sequence[str], indent: str) -> list[str]:
    """Write repeated runs of bodies once, runs within them too; what stands alone is written exactly."""
    lines, at = [], 0
    while at < len(bodies):
        period, times = _repetition(bodies, at)
        if times > 1:
            block = bodies[at : at + period]
            lines += [f"{indent}{times} times:", *_fold(block, block, indent + "  ")]
        else:
            lines.append(indent + exact[at])
        at += period * times
    return lines


def _repetition(items: Sequence[str], at: int) -> tuple[int, int]:
    """The (period, times) that covers most items from `at` on, the shortest such; (1, 1) without any."""
    best = (1, 1)
    for period in range(1, (len(items) - at) // 2 + 1):
        times = 1
        block = items[at : at + period]
        while items[at + times * period : at + (times + 1) * period] == block:
            times += 1
        if times > 1 and period * times > best[0] * best[1]:
            best = (period, times)
    return best
