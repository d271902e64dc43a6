"""check_program finds each way in which a Program can contradict itself."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tenfold.models.build import build_program
from tenfold.program.op import Add, Attention, Linear, Logits, Op, RmsNorm, Rope, View
from tenfold.program.program import Program
from tenfold.program.validate import ProgramError, check_program
from tests.memory_checkpoint import tiny_checkpoint


@pytest.fixture(params=("llama", "qwen2", "qwen3", "gemma3"))
def built(request) -> Program:
    return build_program(tiny_checkpoint(request.param))


def test_built_programs_pass(built):
    check_program(built)


@pytest.fixture(scope="module")
def program() -> Program:
    return build_program(tiny_checkpoint("llama"))


def with_op(program: Program, kind: type, change: Callable[[Op], Op]) -> Program:
    """The program with its first op of a kind changed."""
    index = next(i for i, op in enumerate(program.ops) if isinstance(op, kind))
    ops = (*program.ops[:index], change(program.ops[index]), *program.ops[index + 1 :])
    return msgspec.structs.replace(program, ops=ops)


def replacing(**fields) -> Callable[[Op], Op]:
    return lambda op: msgspec.structs.replace(op, **fields)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (RmsNorm, replacing(x=View("nowhere", 0, 24)), r"op 1 \(RmsNorm\): there is no buffer 'nowhere'"),
        (RmsNorm, replacing(x=View("x", 4, 24)), "columns 4 to 28 are not within 'x'"),
        (RmsNorm, replacing(x=View("x", -4, 24)), "are not within 'x'"),
        (RmsNorm, replacing(x=View("x", 0, 0)), "are not within 'x'"),
        (RmsNorm, replacing(out=View("h", 0, 12)), "x is 24 wide, but out 12"),
        (RmsNorm, replacing(weight="gone"), "there is no weight 'gone'"),
        (RmsNorm, replacing(weight="output.weight"), r"has shape \(50, 24\) where \(24,\) is needed"),
        (RmsNorm, replacing(head_dim=7), "not a whole number of heads of 7"),
        (RmsNorm, replacing(eps=0.0), "eps 0.0 is not positive"),
        (Linear, replacing(x=View("act", 0, 24)), "columns 0 to 24 of 'act' are read before written"),
        (Linear, replacing(weights=(), biases=()), "there is no weight"),
        (Linear, replacing(biases=(None,)), "3 weights and 1 places for biases"),
        (Linear, replacing(out=View("qkv", 0, 60)), "the weights give 64 columns, but out is 60 wide"),
        (Linear, replacing(x=View("x", 0, 12)), "does not take rows of 12"),
        (Linear, replacing(add=True), "of 'qkv' are read before written"),
        (Linear, replacing(biases=("output_norm.weight", None, None)), r"where \(32,\) is needed"),
        (Rope, replacing(rope="gone"), "there is no rotary table 'gone'"),
        (Rope, replacing(head_dim=4), "turns 8 elements of heads of 4"),
        (Attention, replacing(layer=7), "layer 7 is not one of 2"),
        (Attention, replacing(layer=1), "layer 1 attends a second time"),
        (Attention, replacing(window=9), "differ from the KV layout's"),
        (Attention, replacing(num_heads=8), "8 heads of 8 do not fill a view of 32"),
        (Attention, replacing(out=View("qkv", 0, 32)), "overlap in the buffer 'qkv'"),
        (Logits, replacing(softcap=0.0), "the softcap 0.0 is not positive"),
        (Logits, replacing(weight="blk.0.attn_k.weight"), r"where \(50, 24\) is needed"),
    ],
)
def test_a_contradiction_in_an_op_is_named(program, kind, change, message):
    with pytest.raises(ProgramError, match=message):
        check_program(with_op(program, kind, change))


def test_logits_come_last_and_once(program):
    for ops in (program.ops[:-1], (*program.ops, program.ops[-1])):
        with pytest.raises(ProgramError, match="logits must be the last op"):
            check_program(msgspec.structs.replace(program, ops=ops))


def test_every_layer_of_the_layout_attends(program):
    ops = tuple(op for op in program.ops if not (isinstance(op, Attention) and op.layer == 1))
    with pytest.raises(ProgramError, match="no op attends in layer 1"):
        check_program(msgspec.structs.replace(program, ops=ops))


def test_a_rotary_table_is_finite(program):
    table = msgspec.structs.replace(program.ropes["rope"], factor=float("nan"))
    with pytest.raises(ProgramError, match="'rope' has values that are not finite"):
        check_program(msgspec.structs.replace(program, ropes={"rope": table}))


def test_an_add_of_a_buffer_to_itself_is_refused(program):
    x = View("x", 0, 24)
    ops = (program.ops[0], Add(x, x), *program.ops[1:])
    with pytest.raises(ProgramError, match="input and output overlap"):
        check_program(msgspec.structs.replace(program, ops=ops))
