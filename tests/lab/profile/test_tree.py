from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tenfold.lab.profile.cost import Cost
from tenfold.lab.profile.report import Node, ProfileReport, shares_of
from tests.lab.profile.test_cost import CEILINGS


def walk(node: Node) -> Iterator[Node]:
    yield node
    for part in node.parts:
        yield from walk(part)


def leaves(node: Node) -> list[Node]:
    return [each for each in walk(node) if not each.parts]


def test_both_phases_ran_as_asked(report: ProfileReport) -> None:
    prefill, decode = report.phases
    assert (prefill.phase, decode.phase) == ("prefill", "decode")
    # Three prompts of 40 tokens in steps of 64: two steps a pass.
    assert prefill.steps == 6 and prefill.tokens_per_step == 60
    assert decode.steps == 6 and decode.tokens_per_step == 3
    for phase in report.phases:
        assert phase.plain_step_seconds > 0
        assert phase.tokens_per_s == pytest.approx(phase.tokens_per_step / phase.plain_step_seconds)


def test_every_part_is_the_sum_of_its_parts(report: ProfileReport, by_layer: ProfileReport) -> None:
    for phase in [*report.phases, *by_layer.phases]:
        assert phase.tree.seconds == pytest.approx(phase.step_seconds)
        for node in walk(phase.tree):
            if node.parts:
                assert sum(part.seconds for part in node.parts) == pytest.approx(
                    node.seconds, rel=1e-3, abs=1e-9
                )
                assert sum(part.cost.int8_ops for part in node.parts) == pytest.approx(node.cost.int8_ops)
        assert sum(node.share for node in leaves(phase.tree)) == pytest.approx(1.0, abs=0.01)


def test_layers_are_summed_or_kept_apart(report: ProfileReport, by_layer: ProfileReport) -> None:
    def places(profile: ProfileReport) -> list[str]:
        return [part.name for part in profile.phases[1].tree.parts if part.kind == "place"]

    assert places(report) == ["embedding", "2 layers", "output"]
    assert places(by_layer) == ["embedding", "layer 0", "layer 1", "output"]
    joined = next(part for part in report.phases[1].tree.parts if part.name == "2 layers")
    apart = [part for part in by_layer.phases[1].tree.parts if part.name.startswith("layer")]
    assert joined.times == 2 and all(part.times == 1 for part in apart)
    assert joined.cost.weight_bytes == pytest.approx(sum(part.cost.weight_bytes for part in apart))
    assert [part.name for part in joined.parts] == [part.name for part in apart[0].parts]


def test_every_op_of_the_program_is_there_once(by_layer: ProfileReport) -> None:
    for phase in by_layer.phases:
        named = [node for node in leaves(phase.tree) if node.ops]
        numbers = Counter(node.ops[0] for node in named if node.name != "quantize")
        assert set(numbers) == set(range(max(numbers) + 1)) and set(numbers.values()) == {1}
        names = {node.name for node in named}
        assert {
            "embed token_embd",
            "linear attn_q attn_k attn_v",
            "attention",
            "rope",
            "silu gate * up",
        } <= names
        linears = sum(node.name.startswith("linear") for node in named)
        assert sum(node.name == "quantize" for node in named) == linears


def test_kinds_are_the_ops_by_kind(report: ProfileReport) -> None:
    for phase in report.phases:
        kinds = {line.kind: line for line in phase.kinds}
        assert {"Linear", "Attention", "quantize", "sampling", "schedule", "inputs", "outputs"} <= set(kinds)
        assert sum(line.seconds for line in phase.kinds) == pytest.approx(phase.step_seconds, rel=0.01)
        assert [line.seconds for line in phase.kinds] == sorted(
            (line.seconds for line in phase.kinds), reverse=True
        )
        assert kinds["Linear"].times == 8 and kinds["Linear"].shares.of_bound > 0


def test_the_binding_ceiling() -> None:
    reading = shares_of(Cost(weight_bytes=1e9, int8_ops=1e9), 1.0, CEILINGS)
    assert reading.bound == "memory" and reading.of_bound == pytest.approx(0.1)
    assert reading.memory == pytest.approx(0.1) and reading.int8 == pytest.approx(0.01)
    computing = shares_of(Cost(weight_bytes=1e8, int8_ops=10e9, bf16_flops=10e9), 0.5, CEILINGS)
    assert computing.bound == "bf16" and computing.of_bound == pytest.approx((0.1 + 0.2) / 0.5)
    nothing = shares_of(Cost(), 1.0, CEILINGS)
    assert nothing.bound == "" and nothing.of_bound == 0
