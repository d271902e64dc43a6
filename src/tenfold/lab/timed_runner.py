"""A runner that also notes what each step computed and how long it took."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from tenfold.core.plan import StepPlan
from tenfold.engine.runner import Runner, StepResult
from tenfold.lab.roofline import Chunk
from tenfold.sampling.batch import SamplingRow


class TimedStep(msgspec.Struct, frozen=True):
    """One executed step: what it computed, and the seconds in the runner and the kernels."""

    chunks: tuple[Chunk, ...]
    seconds: float


class TimedRunner(Runner):
    """Runs StepPlans and keeps a record of them in `steps`."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner.native)
        self.steps: list[TimedStep] = []

    def execute(self, plan: StepPlan, rows: Sequence[SamplingRow]) -> StepResult:
        """Compute a step as Runner does, and note it."""
        begin = time.perf_counter()
        result = super().execute(plan, rows)
        seconds = time.perf_counter() - begin
        chunks = tuple(Chunk(c.start, len(c.token_ids), c.sample) for c in plan.chunks)
        self.steps.append(TimedStep(chunks, seconds))
        return result

    def take(self) -> list[TimedStep]:
        """Return the record so far and begin a new one."""
        steps, self.steps = self.steps, []
        return steps
