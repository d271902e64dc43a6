"""What to profile."""

from __future__ import annotations

import msgspec

from tenfold.config.engine import EngineSettings
from tenfold.core.errors import TenfoldError

PHASES = ("prefill", "decode")


class ProfileSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which steps to run.

    Args:
        phases: of PHASES.
        prompt_tokens: tokens of each prompt that prefill computes, beyond `depth`.
        batch: sequences at once.
        depth: tokens that each sequence has in its KV beforehand, rounded down to full blocks for prefill; decoding
            begins with at least one.
        steps: steps to time in each phase; prefill runs whole prompts until it has as many. None takes as
            many as fit in `seconds`.
        most_decode_steps: decode steps one after the other at most, when `steps` is None.
        seconds: about how long each phase is timed when `steps` is None.
        threads: compute threads; None takes all CPUs.
        isa: kernels; None takes what an engine for `batch` sequences takes, but for prefill alone the CPU's best.
        max_num_batched_tokens: tokens a step; None takes the engine's default, or the batch if that is more.
        block_size: tokens a KV block.
        seed: of the random prompts.
        ceiling_seconds: time for each measurement of a ceiling.
    """

    phases: tuple[str, ...] = PHASES
    prompt_tokens: int = 512
    batch: int = 1
    depth: int = 0
    steps: int | None = None
    most_decode_steps: int = 256
    seconds: float = 2.0
    threads: int | None = None
    isa: str | None = None
    max_num_batched_tokens: int | None = None
    block_size: int = 16
    seed: int = 0
    ceiling_seconds: float = 0.2

    def check(self) -> None:
        """Raise TenfoldError naming the first value that cannot be profiled."""
        if not self.phases or any(phase not in PHASES for phase in self.phases):
            raise TenfoldError(
                f"The phases are {', '.join(PHASES)}; {', '.join(self.phases) or 'none'} given."
            )
        for name, low in {"prompt_tokens": 1, "batch": 1, "depth": 0, "steps": 1}.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise TenfoldError(f"{name} is {value}; it must be at least {low}.")

    @property
    def budget(self) -> int:
        """Tokens a step."""
        return self.max_num_batched_tokens or max(EngineSettings().max_num_batched_tokens, self.batch)

    @property
    def shared_depth(self) -> int:
        """The depth in full blocks: only full blocks are shared."""
        return self.depth // self.block_size * self.block_size
