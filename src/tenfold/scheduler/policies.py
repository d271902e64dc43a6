"""Policies: small pure functions, each of which returns a choice and its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Choice(Generic[T]):
    """What a policy chose, and why, as a clause for the trace."""

    value: T
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A running sequence that may be put out.

    Args:
        seq_id: the sequence.
        priority: lower runs first.
        arrival: order among equal priorities.
        sunk: tokens computed so far, which putting it out throws away.
    """

    seq_id: int
    priority: int
    arrival: int
    sunk: int


def admission_rank(priority: int, arrival: int, seq_id: int) -> tuple[int, int, int]:
    """Key by which sequences are admitted, and keep their blocks: priority, then arrival.

    A preempted sequence keeps its arrival, so it returns before those that came later.
    """
    return (priority, arrival, seq_id)


def chunk_size(remaining: int, budget: int, max_chunk: int | None, *, chunked: bool) -> Choice[int]:
    """How many of a prompt's `remaining` tokens to compute in a step that has `budget` tokens left for prompts."""
    if not chunked:
        if remaining <= budget:
            return Choice(remaining, "the whole rest fits")
        return Choice(
            0, f"its {remaining} tokens must be computed at once and {budget} are left in this step"
        )
    limit = budget if max_chunk is None else min(budget, max_chunk)
    if remaining <= limit:
        return Choice(remaining, "the whole rest fits")
    if limit < budget:
        return Choice(limit, f"{limit} of {remaining} tokens, the limit of a chunk")
    return Choice(max(0, limit), f"{max(0, limit)} of {remaining} tokens, all that is left in this step")


def prefill_room(budget: int, decodes: int, beside: int | None) -> Choice[int]:
    """How many tokens of prompts a step with `budget` tokens may compute, in which `decodes` sequences decode.

    Each token costs about the same, so with two prompt tokens for each decoding sequence no step takes more than
    three times as long as one that only decodes. Fewer than `beside` tokens would read all weights for too little.
    """
    left = budget - decodes
    if not decodes or beside is None:
        return Choice(left, "all that is left in this step")
    limit = max(beside, 2 * decodes)
    if left <= limit:
        return Choice(left, "all that is left in this step")
    return Choice(limit, f"{decodes} sequences decode and wait for this step")


def admission(needed: int, free: int, running: int) -> Choice[bool]:
    """Whether a sequence that needs `needed` new blocks may start while `free` are free and `running` run.

    One block is left for each running sequence, which may need it within the next few steps; else the
    newcomer would be put out again before it has done much.
    """
    if needed + running <= free:
        return Choice(True, "the blocks are free")
    kept = f", of which {running} are kept for running sequences" if running else ""
    return Choice(False, f"it needs {needed} blocks and {free} are free{kept}")


def next_victim(candidates: Iterable[Candidate]) -> Choice[Candidate]:
    """Which sequence to put out: the least important priority, then the least sunk work, then the newest.

    ValueError when there are no candidates. Livelock is excluded by who is a candidate, not by the order
    among them: the scheduler never offers a sequence that ranks before the one in need.
    """
    victim = min(candidates, key=lambda each: (-each.priority, each.sunk, -each.arrival))
    return Choice(victim, f"priority {victim.priority}, {victim.sunk} computed tokens lost, the least")


def choose_victims(
    candidates: Iterable[Candidate], enough: Callable[[tuple[int, ...]], bool]
) -> tuple[Choice[Candidate], ...]:
    """The sequences to put out so that `enough` holds of their ids; empty when all together are not enough.

    Takes them by `next_victim` until it is enough, then spares each one that turned out not to be needed.
    """
    left = {each.seq_id: each for each in candidates}
    if not left or not enough(tuple(left)):
        return ()
    chosen: list[Choice[Candidate]] = []
    while not enough(tuple(choice.value.seq_id for choice in chosen)):
        choice = next_victim(left.values())
        del left[choice.value.seq_id]
        chosen.append(choice)
    # The last taken are the most worth sparing, but the very last made it enough and is needed.
    for choice in chosen[-2::-1]:
        rest = [each for each in chosen if each is not choice]
        if enough(tuple(each.value.seq_id for each in rest)):
            chosen = rest
    return tuple(chosen)
