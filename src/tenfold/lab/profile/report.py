"""A profile as a tree: a step, its parts, the model's layers, their stages, the stages' ops; each with its figures."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tenfold.lab.profile.cost import Cost
from tenfold.lab.roofline import Ceilings


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """How near a part comes to each of the machine's ceilings, 1 being all of it.

    Args:
        memory: weights and KV a second, of the memory's read rate. Above 1 they came from the CPU's caches.
        int8, bf16, fp32: operations a second.
        bound: the ceiling that allows it the least speed, "" for a part without cost.
        least_seconds: what that ceiling allows, with reading and computing overlapped; a step.
        of_bound: least_seconds / seconds.
    """

    memory: float
    int8: float
    bf16: float
    fp32: float
    bound: str
    least_seconds: float
    of_bound: float


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a step; figures are means over the profiled steps.

    Args:
        name: for people.
        kind: "step", "outside", "place", "stage" or "op".
        ops: numbers of the Program's ops it stands for.
        times: how often it runs in a step.
        seconds: a step.
        share: of the step's time.
        cost: bytes and operations a step.
        gb_per_s, gops: of all its bytes and operations.
        shares: of the ceilings.
        parts: what it is made of, in order of execution.
    """

    name: str
    kind: str
    ops: tuple[int, ...]
    times: int
    seconds: float
    share: float
    cost: Cost
    gb_per_s: float
    gops: float
    shares: Shares
    parts: tuple[Node, ...] = ()


class KindLine(msgspec.Struct, frozen=True, kw_only=True):
    """All parts of one kind of work together, such as every Linear."""

    kind: str
    times: int
    seconds: float
    share: float
    cost: Cost
    shares: Shares


class PhaseProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One phase.

    Args:
        phase: "prefill" or "decode".
        steps: profiled steps.
        tokens_per_step: computed, on average.
        step_seconds: mean of the profiled steps.
        plain_step_seconds: mean of steps without clocks on the stages; the difference is what profiling costs.
        tokens_per_s: tokens_per_step / plain_step_seconds.
        kinds: by kind of op, longest first.
        tree: the step.
    """

    phase: str
    steps: int
    tokens_per_step: float
    step_seconds: float
    plain_step_seconds: float
    tokens_per_s: float
    kinds: list[KindLine]
    tree: Node


class ProfileReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `tenfold profile` measured."""

    model: str
    path: str
    isa: str
    threads: int
    batch: int
    depth: int
    prompt_tokens: int
    max_num_batched_tokens: int
    weight_bytes: int
    weight_formats: dict[str, int]
    ceilings: Ceilings
    phases: list[PhaseProfile]


def shares_of(cost: Cost, seconds: float, ceilings: Ceilings) -> Shares:
    """Set a cost that took `seconds` against the ceilings."""
    least = cost.least(ceilings)
    computing = least["int8"] + least["bf16"] + least["fp32"]
    limit = max(least["memory"], computing)
    per = 1 / seconds if seconds > 0 else 0.0
    bound = (
        "memory" if least["memory"] >= computing else max(("int8", "bf16", "fp32"), key=lambda k: least[k])
    )
    return Shares(
        **{name: value * per for name, value in least.items()},
        bound=bound if limit > 0 else "",
        least_seconds=limit,
        of_bound=limit * per,
    )


def join_layers(places: Sequence[Node], ceilings: Ceilings, step_seconds: float) -> tuple[Node, ...]:
    """Put layers that consist of the same stages together, in order of the first of each sort."""
    groups: dict[tuple[str, ...], list[Node]] = {}
    for place in places:
        shape = tuple(re.sub(r"\d+", "*", place.name) + part.name for part in place.parts)
        groups.setdefault(shape, []).append(place)
    return tuple(_merge(alike, ceilings, step_seconds) for alike in groups.values())


def _merge(alike: Sequence[Node], ceilings: Ceilings, step_seconds: float) -> Node:
    if len(alike) == 1:
        return alike[0]
    first = alike[0]
    columns = zip(*(node.parts for node in alike), strict=True)
    name = f"{len(alike)} layers" if first.kind == "place" else first.name
    return make_node(
        name,
        first.kind,
        ops=tuple(op for node in alike for op in node.ops),
        times=sum(node.times for node in alike),
        seconds=sum(node.seconds for node in alike),
        cost=sum((node.cost for node in alike), Cost()),
        parts=tuple(_merge(column, ceilings, step_seconds) for column in columns),
        ceilings=ceilings,
        step_seconds=step_seconds,
    )


def make_node(
    name: str,
    kind: str,
    *,
    seconds: float,
    cost: Cost,
    ceilings: Ceilings,
    step_seconds: float,
    ops: tuple[int, ...] = (),
    times: int = 1,
    parts: tuple[Node, ...] = (),
) -> Node:
    """A node with its derived figures."""
    per = 1e-9 / seconds if seconds > 0 else 0.0
    return Node(
        name=name,
        kind=kind,
        ops=ops,
        times=times,
        seconds=seconds,
        share=seconds / step_seconds,
        cost=cost,
        gb_per_s=cost.total_bytes * per,
        gops=cost.operations * per,
        shares=shares_of(cost, seconds, ceilings),
        parts=parts,
    )
