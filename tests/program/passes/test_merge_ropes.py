from __future__ import annotations

import msgspec
import pytest

from tenfold.models.registry import builder_for
from tenfold.program.op import Rope, View
from tenfold.program.passes.merge_ropes import merge_ropes
from tests.memory_checkpoint import tiny_checkpoint


def test_q_and_k_are_rotated_together():
    program = merge_ropes(builder_for("qwen3")(tiny_checkpoint("qwen3")))
    assert [op for op in program.ops if isinstance(op, Rope)] == [Rope(View("qkv", 0, 48), 8, "rope")] * 2


@pytest.mark.parametrize(
    "second",
    [Rope(View("y", 8, 8), 4, "other"), Rope(View("y", 8, 8), 8, "rope"), Rope(View("y", 9, 8), 4, "rope")],
)
def test_ropes_of_other_tables_heads_or_places_stay_apart(second):
    ops = (Rope(View("y", 0, 8), 4, "rope"), second)
    program = msgspec.structs.replace(builder_for("llama")(tiny_checkpoint("llama")), ops=ops)
    assert merge_ropes(program).ops == ops
