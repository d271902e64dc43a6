"""From measured times and the Program to the profile's tree."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby

import msgspec

from tenfold.lab.profile.cost import Cost, Pricer
from tenfold.lab.profile.names import op_name, places
from tenfold.lab.profile.phase import PhaseTimes
from tenfold.lab.profile.report import KindLine, Node, PhaseProfile, join_layers, make_node, shares_of
from tenfold.lab.roofline import Ceilings
from tenfold.program.program import Program

QUANTIZE, SAMPLING, PREPARE = "quantize", "sampling", "prepare"


class _Part(msgspec.Struct, frozen=True):
    """One op's share of one stage, seconds a step."""

    stage: int
    stage_kind: str
    number: int
    quantizes: bool
    seconds: float


class TreeBuilder:
    """Builds one phase's profile.

    Args:
        program: the model.
        pricer: prices the phase's work.
        times: what the phase took.
        ceilings: of the machine.
        by_layer: keep every layer apart.
    """

    def __init__(
        self, program: Program, pricer: Pricer, times: PhaseTimes, ceilings: Ceilings, *, by_layer: bool
    ) -> None:
        self._program = program
        self._pricer = pricer
        self._times = times
        self._steps = len(times.steps)
        self._ceilings = ceilings
        self._by_layer = by_layer
        self._step_seconds = times.seconds / self._steps
        self._places = places(program)

    def build(self) -> PhaseProfile:
        """The phase with its tree."""
        ops = [self._op(part) for part in self._parts()]
        tree = self._tree(ops)
        tokens = sum(chunk.count for step in self._times.steps for chunk in step) / self._steps
        return PhaseProfile(
            phase=self._times.phase,
            steps=self._steps,
            tokens_per_step=tokens,
            step_seconds=self._step_seconds,
            plain_step_seconds=self._times.plain_step_seconds,
            tokens_per_s=tokens / self._times.plain_step_seconds,
            kinds=self._kinds(tree, ops),
            tree=tree,
        )

    def _parts(self) -> list[_Part]:
        return [
            _Part(stage, kind, number, quantizes, seconds / self._steps)
            for stage, (kind, _, parts) in enumerate(self._times.native["stages"])
            for number, quantizes, seconds in parts
        ]

    def _op(self, part: _Part) -> tuple[_Part, Node]:
        op = self._program.ops[part.number]
        name = QUANTIZE if part.quantizes else op_name(self._program, op)
        cost = self._pricer.quantize(op) if part.quantizes else self._pricer.price(op)
        return part, self._node(name, "op", part.seconds, self._mean(cost), ops=(part.number,))

    def _tree(self, ops: list[tuple[_Part, Node]]) -> Node:
        found: list[Node] = []
        for place, of_place in groupby(ops, key=lambda each: self._places[each[0].number]):
            stages = []
            # A row stage may reach from one layer into the next; each gets its part.
            for _, of_stage in groupby(of_place, key=lambda each: each[0].stage):
                parts = list(of_stage)
                stages.append(self._stage(parts[0][0].stage_kind, [node for _, node in parts]))
            found.append(self._joined(place, "place", stages))
        native = self._times.native
        before = self._outside(PREPARE, native["prepare"])
        after = self._node(
            SAMPLING, "outside", native["sampling"] / self._steps, self._mean(self._pricer.sampling())
        )
        outside = {name: self._outside(name, seconds) for name, seconds in self._times.outside.items()}
        model = tuple(found) if self._by_layer else join_layers(found, self._ceilings, self._step_seconds)
        order = [outside.pop("schedule"), outside.pop("inputs"), before, *model, after, *outside.values()]
        cost = sum((node.cost for node in order), Cost())
        return self._node("step", "step", self._step_seconds, cost, parts=tuple(order))

    def _stage(self, kind: str, ops: list[Node]) -> Node:
        if len(ops) == 1:
            return msgspec.structs.replace(ops[0], kind="stage")
        return self._joined(f"{kind}: {', '.join(op.name for op in ops)}", "stage", ops)

    def _joined(self, name: str, kind: str, parts: list[Node]) -> Node:
        return self._node(
            name,
            kind,
            sum(part.seconds for part in parts),
            sum((part.cost for part in parts), Cost()),
            ops=tuple(op for part in parts for op in part.ops),
            parts=tuple(parts),
        )

    def _outside(self, name: str, seconds: float) -> Node:
        return self._node(name, "outside", seconds / self._steps, Cost())

    def _node(
        self,
        name: str,
        kind: str,
        seconds: float,
        cost: Cost,
        *,
        ops: tuple[int, ...] = (),
        parts: tuple[Node, ...] = (),
    ) -> Node:
        return make_node(
            name,
            kind,
            seconds=seconds,
            cost=cost,
            ops=ops,
            parts=parts,
            ceilings=self._ceilings,
            step_seconds=self._step_seconds,
        )

    def _mean(self, cost: Cost) -> Cost:
        return cost.scaled(1 / self._steps)

    def _kinds(self, tree: Node, ops: list[tuple[_Part, Node]]) -> list[KindLine]:
        gathered: dict[str, list[Node]] = defaultdict(list)
        for part, node in ops:
            kind = QUANTIZE if part.quantizes else type(self._program.ops[part.number]).__name__
            gathered[kind].append(node)
        for node in tree.parts:
            if node.kind == "outside":
                gathered[node.name].append(node)
        lines = []
        for kind, nodes in gathered.items():
            seconds = sum(node.seconds for node in nodes)
            cost = sum((node.cost for node in nodes), Cost())
            lines.append(
                KindLine(
                    kind=kind,
                    times=len(nodes),
                    seconds=seconds,
                    share=seconds / self._step_seconds,
                    cost=cost,
                    shares=shares_of(cost, seconds, self._ceilings),
                )
            )
        return sorted(lines, key=lambda line: -line.seconds)
