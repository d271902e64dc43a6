"""Running a phase: real steps, once plain and once under the clocks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from tenfold.core.errors import TenfoldError
from tenfold.engine.model import Model
from tenfold.lab.profile.settings import ProfileSettings
from tenfold.lab.profile.stopwatch import Stopwatch, WatchedCore, WatchedRunner
from tenfold.lab.random_requests import RandomRequests
from tenfold.lab.roofline import Chunk

if TYPE_CHECKING:
    from tenfold._native import StepTimes


class PhaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What a phase's steps took, in seconds over all of them.

    Args:
        phase: "prefill" or "decode".
        steps: what each profiled step computed.
        native: stage by stage, from the kernels.
        outside: the parts of a step outside the kernels.
        seconds: whole steps, by the clock.
        plain_step_seconds: a step's mean time with the stages' clocks off.
    """

    phase: str
    steps: tuple[tuple[Chunk, ...], ...]
    native: StepTimes
    outside: dict[str, float]
    seconds: float
    plain_step_seconds: float


class PhaseRunner:
    """Runs phases on a loaded model.

    Args:
        model: loaded with room for the batch.
        settings: what to run.
    """

    def __init__(self, model: Model, settings: ProfileSettings) -> None:
        self._settings = settings
        self._native = model.runner.native
        self._watch = Stopwatch()
        runner = WatchedRunner(model.runner, self._watch)
        self._engine = WatchedCore(msgspec.structs.replace(model, runner=runner), self._watch)
        self._requests = RandomRequests(self._engine, settings.seed, "profile")
        self._prefixes = [self._requests.tokens(settings.shared_depth) for _ in range(settings.batch)]

    def run(self, phase: str) -> PhaseTimes:
        """Bring the caches to the depth, warm up, run plain steps, then profiled ones."""
        for prefix in self._prefixes:
            if prefix:
                self._requests.add(prefix, 1)
                self._requests.finish()
        measure = self._prefill if phase == "prefill" else self._decode
        measure(1, 0.0, profiled=False)
        limit, seconds = self._settings.steps, self._settings.seconds / 2
        measure(limit, seconds, profiled=False)
        plain = self._watch.seconds["step"] / len(self._watch.steps)
        measure(limit, seconds, profiled=True)
        native = self._native.step_times()
        self._native.profile(False)
        self._engine.check()
        return PhaseTimes(
            phase=phase,
            steps=tuple(self._watch.steps),
            native=native,
            outside=_outside(self._watch, native),
            seconds=self._watch.seconds["step"],
            plain_step_seconds=plain,
        )

    def _prefill(self, limit: int | None, seconds: float, *, profiled: bool) -> None:
        """Compute whole prompts behind the depth, all of the batch at once, again and again."""
        self._begin(profiled)
        begin = time.perf_counter()
        while not self._is_over(limit, seconds, begin):
            for prefix in self._prefixes:
                self._requests.add(prefix + self._requests.tokens(self._settings.prompt_tokens), 1)
            self._requests.finish()

    def _decode(self, limit: int | None, seconds: float, *, profiled: bool) -> None:
        """Bring the whole batch to its first token, then time the steps that follow."""
        extra = max(1, self._settings.depth) - self._settings.shared_depth
        running = [
            self._requests.add(prefix + self._requests.tokens(extra), None) for prefix in self._prefixes
        ]
        waiting = set(running)
        while waiting:
            waiting -= {output.request_id for output in self._engine.step()}
        self._begin(profiled)
        begin = time.perf_counter()
        most = self._settings.most_decode_steps if limit is None else limit
        while len(self._watch.steps) < most and not self._is_over(limit, seconds, begin):
            outputs = self._engine.step()
            if len(outputs) != len(running) or any(output.finish_reason for output in outputs):
                raise TenfoldError(
                    "A sequence left the batch while its steps were timed: the cache or the model's context is too "
                    "small; lower --batch, --depth or --steps."
                )
        for request_id in running:
            self._engine.abort(request_id)

    def _begin(self, profiled: bool) -> None:
        self._watch.restart()
        self._native.profile(profiled)

    def _is_over(self, limit: int | None, seconds: float, begin: float) -> bool:
        if limit is not None:
            return len(self._watch.steps) >= limit
        return bool(self._watch.steps) and time.perf_counter() - begin >= seconds


def _outside(watch: Stopwatch, native: StepTimes) -> dict[str, float]:
    """Seconds of the steps spent outside the native program, by part; what is left over is "rest"."""
    seconds = watch.seconds
    inside = native["prepare"] + native["sampling"] + sum(stage[1] for stage in native["stages"])
    parts = {
        "schedule": seconds["schedule"],
        "inputs": seconds["execute"] - seconds["native"] - seconds["results"],
        "call": seconds["native"] - inside,
        "outputs": seconds["account"] + seconds["results"],
    }
    parts["rest"] = seconds["step"] - inside - sum(parts.values())
    return parts
