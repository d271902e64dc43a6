"""An engine whose steps are timed part by part, outside the kernels as well as inside."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tenfold.core.plan import StepPlan
from tenfold.core.request import RequestOutput
from tenfold.engine.completion import Completion
from tenfold.engine.core import EngineCore
from tenfold.engine.runner import Runner, StepResult
from tenfold.lab.roofline import Chunk


class Stopwatch:
    """Seconds by name, and the steps that were timed."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin from zero."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.steps: list[tuple[Chunk, ...]] = []

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Add the block's time to a name."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - begin


class WatchedRunner(Runner):
    """A Runner that times what it does around the kernels.

    Args:
        runner: whose native program it runs.
        watch: gets "inputs", "native" and "results".
    """

    def __init__(self, runner: Runner, watch: Stopwatch) -> None:
        super().__init__(runner.native)
        self._watch = watch

    def _inputs(self, plan: StepPlan, rows: Sequence[Any]) -> tuple[Any, ...]:
        with self._watch.time("inputs"):
            return super()._inputs(plan, rows)

    def _compute(self, inputs: tuple[Any, ...]) -> Any:
        with self._watch.time("native"):
            return super()._compute(inputs)

    def _results(self, plan: StepPlan, made: Any) -> StepResult:
        with self._watch.time("results"):
            return super()._results(plan, made)


class WatchedCore(EngineCore):
    """An EngineCore that times the parts of its steps; its model's runner is a WatchedRunner.

    Args:
        model: as EngineCore takes it.
        watch: gets "step", "schedule", "execute" and "account", and the steps' chunks.
    """

    def __init__(self, model: Any, watch: Stopwatch) -> None:
        super().__init__(model)
        self._watch = watch

    def step(self) -> list[RequestOutput]:
        """Run a step, and time it."""
        with self._watch.time("step"):
            return super().step()

    def _plan(self) -> StepPlan:
        with self._watch.time("schedule"):
            plan = super()._plan()
        if plan.chunks:
            chunks = tuple(Chunk(c.start, len(c.token_ids), c.sample) for c in plan.chunks)
            self._watch.steps.append(chunks)
        return plan

    def _execute(self, plan: StepPlan, sampling: list[Completion]) -> StepResult:
        with self._watch.time("execute"):
            return super()._execute(plan, sampling)

    def _account(self, plan: StepPlan, sampling: list[Completion], result: StepResult) -> list[RequestOutput]:
        with self._watch.time("account"):
            return super()._account(plan, sampling, result)
