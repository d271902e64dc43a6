"""The runner: the only place between the scheduler's ids and the kernels' arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence as Items
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tenfold import _native
from tenfold.core.errors import EngineError
from tenfold.core.plan import ScheduledChunk, StepPlan
from tenfold.core.request import TokenLogprobs
from tenfold.sampling.batch import SamplingCache, SamplingRow

_Table = tuple[tuple[int, ...], npt.NDArray[np.int32]]
# Of each sampled row: the token, its log probability, the likeliest tokens with theirs.
_Sampled = tuple[list[int], list[float], list[list[tuple[int, float]] | None]]


class Runner:
    """Runs StepPlans on a native program.

    Args:
        native: a finished native program.
    """

    def __init__(self, native: _native.Program) -> None:
        self.native = native
        self._tables: dict[int, _Table] = {}
        self._sampling = SamplingCache()
        self._process = os.getpid()

    def execute(self, plan: StepPlan, rows: Items[SamplingRow]) -> list[TokenLogprobs]:
        """Compute a step and sample one token for each chunk with `sample` set, in the plan's order.

        Args:
            plan: what to compute; at least one chunk.
            rows: how to sample, one for each sampling chunk.

        Returns:
            The sampled tokens; a token id of -1 means that no token had a finite logit. `logprob` and `top` are filled
            where the row asked for log probabilities.

        Raises:
            EngineError: the process was forked since the model was loaded; the compute threads stayed behind.
        """
        if os.getpid() != self._process:
            raise EngineError(
                "The model was loaded before this process was forked; load it again in this process."
            )
        return self._results(self._compute(self._inputs(plan, rows)))

    def _inputs(self, plan: StepPlan, rows: Items[SamplingRow]) -> tuple[Any, ...]:
        """The arguments of the native step."""
        return *self._arrays(plan.chunks), _native.SamplingArrays(*self._sampling.arguments(rows))

    def _compute(self, inputs: tuple[Any, ...]) -> _Sampled:
        return self.native.step(*inputs)

    def _results(self, sampled: _Sampled) -> list[TokenLogprobs]:
        return [
            TokenLogprobs(token, logprob, tuple(top) if top is not None else ())
            for token, logprob, top in zip(*sampled, strict=True)
        ]

    def logits(self, plan: StepPlan, rows: Items[int]) -> npt.NDArray[np.float32]:
        """Compute a step and return raw float32 logits (len(rows), vocab) of the step's rows with these numbers."""
        arrays = self._arrays(plan.chunks)
        return self.native.step_logits(*arrays[:-1], np.asarray(rows, dtype=np.int32))

    def _arrays(
        self, chunks: Items[ScheduledChunk]
    ) -> tuple[
        npt.NDArray[np.int32],
        npt.NDArray[np.int32],
        npt.NDArray[np.int32],
        npt.NDArray[np.int32],
        npt.NDArray[np.int64],
        npt.NDArray[np.int32],
    ]:
        # From lists: for the few numbers of a step that is faster than numpy's own sums and masks.
        lengths = [len(c.token_ids) for c in chunks]
        tables = [self._table(c) for c in chunks]
        self._tables = {c.seq_id: t for c, t in zip(chunks, tables, strict=True)}
        return (
            np.array(list(chain.from_iterable(c.token_ids for c in chunks)), dtype=np.int32),
            np.array(lengths, dtype=np.int32),
            np.array([c.start for c in chunks], dtype=np.int32),
            np.concatenate([table for _, table in tables]),
            np.array(list(accumulate((len(blocks) for blocks, _ in tables), initial=0)), dtype=np.int64),
            np.array(
                [end - 1 for c, end in zip(chunks, accumulate(lengths), strict=True) if c.sample],
                dtype=np.int32,
            ),
        )

    def _table(self, chunk: ScheduledChunk) -> _Table:
        # The scheduler hands out the same tuple until a sequence's blocks change, so identity is enough.
        known = self._tables.get(chunk.seq_id)
        if known is not None and known[0] is chunk.block_ids:
            return known
        return chunk.block_ids, np.asarray(chunk.block_ids, dtype=np.int32)
