"""The StepPlan: what the scheduler decides and the runner executes. Ids and counts only, never tensors."""

from __future__ import annotations

import msgspec


class Scoring(msgspec.Struct, frozen=True):
    """Rows of a chunk whose logits say how likely a given token was: the prompt's next one.

    Args:
        first: number of the first of these rows, counted from the chunk's start; the others follow it.
        targets: the token asked for, of each row.
        most: how many of the likeliest tokens to name besides.
    """

    first: int
    targets: tuple[int, ...]
    most: int


class ScheduledChunk(msgspec.Struct, frozen=True):
    """Consecutive tokens of one sequence to compute in this step.

    Args:
        seq_id: the sequence (one completion of a request).
        start: position of the first token computed in this step, counted from 0.
        token_ids: the tokens at positions start, start + 1, ...
        block_ids: the sequence's KV blocks, covering positions 0 to start + len(token_ids).
        sample: true when the chunk reaches the sequence's last known token, so that a next token is sampled.
        scoring: the rows of prompt tokens to score, if any.
    """

    seq_id: int
    start: int
    token_ids: tuple[int, ...]
    block_ids: tuple[int, ...]
    sample: bool
    scoring: Scoring | None = None


class StepPlan(msgspec.Struct, frozen=True):
    """One engine step.

    Args:
        step: number of the step, counted from 0.
        chunks: what to compute; at most one chunk a sequence.
        preempted: sequences that lost their blocks and wait to be recomputed.
        reasons: one short sentence a decision worth explaining, for traces.
    """

    step: int
    chunks: tuple[ScheduledChunk, ...]
    preempted: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Tokens computed in this step."""
        return sum(len(chunk.token_ids) for chunk in self.chunks)
