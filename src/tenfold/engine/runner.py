"""The runner: the only place between the scheduler's ids and the kernels' arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence as Items
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tenfold import _native
from tenfold.core.errors import EngineError
from tenfold.core.plan import ScheduledChunk, StepPlan
from tenfold.core.request import TokenLogprobs
from tenfold.sampling.batch import SamplingCache, SamplingRow

_Table = tuple[tuple[int, ...], npt.NDArray[np.int32]]


class StepResult(msgspec.Struct, frozen=True):
    """What a step gave, both in the plan's order.

    Args:
        sampled: the token of each chunk with `sample` set; an id of -1 means that no token had a finite logit.
            `logprob` and `top` are filled where the row asked for log probabilities.
        scored: of each chunk with `scoring`, one entry a row.
    """

    sampled: list[TokenLogprobs]
    scored: list[list[TokenLogprobs]]


class Runner:
    """Runs StepPlans on a native program.

    Args:
        native: a finished native program.
    """

    def __init__(self, native: _native.Program) -> None:
        self.native = native
        self._tables: dict[int, _Table] = {}
        self._joined: list[tuple[int, ...]] = []
        self._blocks = np.empty(0, np.int32)
        self._offsets = [0]
        self._sampling = SamplingCache()
        self._process = os.getpid()

    def execute(self, plan: StepPlan, rows: Items[SamplingRow]) -> StepResult:
        """Compute a step, sample one token for each chunk with `sample` set, and score what is to be scored.

        Args:
            plan: what to compute; at least one chunk.
            rows: how to sample, one for each sampling chunk.

        Raises:
            EngineError: the process was forked since the model was loaded; the compute threads stayed behind.
        """
        if os.getpid() != self._process:
            raise EngineError(
                "The model was loaded before this process was forked; load it again in this process."
            )
        return self._results(plan, self._compute(self._inputs(plan, rows)))

    def _inputs(self, plan: StepPlan, rows: Items[SamplingRow]) -> tuple[Any, ...]:
        """The arguments of the native step."""
        inputs = *self._arrays(plan.chunks), self._sampling.arrays(rows)
        scores = _scores(plan.chunks)
        return (*inputs, scores) if scores else inputs

    def _compute(self, inputs: tuple[Any, ...]) -> _native.Step:
        return self.native.step(*inputs)

    def _results(self, plan: StepPlan, made: _native.Step) -> StepResult:
        tokens, logprobs, tops, scores = made
        sampled = [
            TokenLogprobs(token, logprob, tuple(top) if top is not None else ())
            for token, logprob, top in zip(tokens, logprobs, tops, strict=True)
        ]
        scored = []
        if scores:
            entries = iter(scores)
            for chunk in plan.chunks:
                if chunk.scoring is not None:
                    scored.append(
                        [
                            TokenLogprobs(target, logprob, tuple(top), rank)
                            for target, (logprob, rank, top) in zip(
                                chunk.scoring.targets, entries, strict=False
                            )
                        ]
                    )
        return StepResult(sampled, scored)

    def logits(self, plan: StepPlan, rows: Items[int]) -> npt.NDArray[np.float32]:
        """Compute a step and return raw float32 logits (len(rows), vocab) of the step's rows with these numbers."""
        return self.native.step_logits(*self._arrays(plan.chunks)[:-1], list(rows))

    def _arrays(
        self, chunks: Items[ScheduledChunk]
    ) -> tuple[Items[int], list[int], list[int], npt.NDArray[np.int32], list[int], list[int]]:
        # Lists but for the block tables: an array costs more to hand over than the few numbers of most steps.
        lengths = [len(c.token_ids) for c in chunks]
        tokens = chunks[0].token_ids if len(chunks) == 1 else [t for c in chunks for t in c.token_ids]
        rows = [end - 1 for c, end in zip(chunks, accumulate(lengths), strict=True) if c.sample]
        self._join_tables(chunks)
        return tokens, lengths, [c.start for c in chunks], self._blocks, self._offsets, rows

    def _join_tables(self, chunks: Items[ScheduledChunk]) -> None:
        # The scheduler hands out the same tuples until a sequence's blocks change, so this is soon compared.
        ids = [c.block_ids for c in chunks]
        if ids == self._joined:
            return
        tables = [self._table(c) for c in chunks]
        self._tables = {c.seq_id: t for c, t in zip(chunks, tables, strict=True)}
        self._blocks = np.concatenate([table for _, table in tables])
        self._offsets = list(accumulate(map(len, ids), initial=0))
        self._joined = ids

    def _table(self, chunk: ScheduledChunk) -> _Table:
        known = self._tables.get(chunk.seq_id)
        if known is not None and known[0] is chunk.block_ids:
            return known
        return chunk.block_ids, np.asarray(chunk.block_ids, dtype=np.int32)


def _scores(chunks: Items[ScheduledChunk]) -> list[int]:
    """The step's rows to score, as the native step takes them: row, token and how many of the likeliest, flat."""
    scores: list[int] = []
    start = 0
    for chunk in chunks:
        if chunk.scoring is not None:
            for row, target in enumerate(chunk.scoring.targets, start + chunk.scoring.first):
                scores += (row, target, chunk.scoring.most)
        start += len(chunk.token_ids)
    return scores
