from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tenfold.models.registry import builder_for
from tenfold.program.op import Linear, View
from tenfold.program.passes.merge_ropes import merge_ropes
from tenfold.program.passes.pack_linears import pack_linears
from tenfold.program.reference import Chunk, ReferenceRunner
from tenfold.program.validate import check_program
from tests.memory_checkpoint import tiny_checkpoint


@pytest.mark.parametrize("architecture", ("llama", "qwen2", "qwen3", "gemma3"))
def test_packing_and_merging_change_no_logit(architecture):
    checkpoint = tiny_checkpoint(architecture)
    plain = builder_for(architecture)(checkpoint)
    packed = merge_ropes(pack_linears(plain))
    check_program(plain)
    check_program(packed)
    layers = checkpoint.config.num_layers
    # Three projections become one, two become one, and two rotations become one.
    assert len(plain.ops) - len(packed.ops) == layers * (2 + 1 + 1)
    chunk = Chunk(0, 0, list(range(20)), "all")
    before, after = (ReferenceRunner(p, checkpoint.arrays).forward([chunk])[0] for p in (plain, packed))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_qkv_is_one_linear_in_order():
    program = pack_linears(builder_for("qwen2")(tiny_checkpoint("qwen2")))
    qkv = next(op for op in program.ops if isinstance(op, Linear))
    assert qkv.weights == tuple(f"blk.0.attn_{part}.weight" for part in "qkv")
    assert qkv.biases == tuple(f"blk.0.attn_{part}.bias" for part in "qkv")
    assert qkv.out == View("qkv", 0, 64)


X, Y = View("x", 0, 8), View("x", 8, 8)
FIRST = Linear(X, View("y", 0, 4), ("a",), (None,))


@pytest.mark.parametrize(
    "second",
    [
        Linear(Y, View("y", 4, 4), ("b",), (None,)),  # another input
        Linear(X, View("y", 5, 4), ("b",), (None,)),  # a gap
        Linear(X, View("z", 4, 4), ("b",), (None,)),  # another buffer
        Linear(X, View("y", 4, 4), ("b",), (None,), add=True),  # adds
    ],
)
def test_what_does_not_belong_together_stays_apart(second):
    program = builder_for("llama")(tiny_checkpoint("llama"))
    apart = pack_linears(msgspec.structs.replace(program, ops=(FIRST, second)))
    assert apart.ops == (FIRST, second)


def test_a_linear_that_overwrites_its_input_is_not_joined():
    # The second reads what the first has written.
    ops = (Linear(X, View("x", 0, 4), ("a",), (None,)), Linear(X, View("x", 4, 4), ("b",), (None,)))
    program = msgspec.structs.replace(builder_for("llama")(tiny_checkpoint("llama")), ops=ops)
    assert pack_linears(program).ops == ops
