"""The conversation between bench/worker.py and a worker: a JSON line in, a JSON line out.

Runs in a peer's environment: standard library only. A worker says {"ready": {...}} once it has loaded; then each
line on stdin is a row ({"what", "tokens", "batch", "depth"}) and is answered with {"rate": tokens/s, ...} or
{"error": sentence}. Whatever libraries print goes to stderr.
"""

from __future__ import annotations

import json
import os
import random
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class WorkerRow:
    """What to measure: the fields of bench/scenarios.py's Row that an engine needs."""

    what: str
    tokens: int
    batch: int
    depth: int

    @property
    def prompt_len(self) -> int:
        """Tokens of each prompt: of a decode, what it starts from."""
        return self.depth + self.tokens if self.what == "prefill" else max(1, self.depth)


def random_prompts(row: WorkerRow, vocab: int, number: int) -> list[list[int]]:
    """One prompt a sequence; `number` counts the measurements, so that none finds another's in a cache."""
    chooser = random.Random(f"{row} {number}")
    return [[chooser.randrange(vocab) for _ in range(row.prompt_len)] for _ in range(row.batch)]


def warm_up(row: WorkerRow) -> WorkerRow:
    """A short row of the same kind and batch: engines choose and compile kernels when they see new shapes."""
    if row.what == "prefill":
        return replace(row, tokens=min(row.tokens, 2048), depth=0)
    return replace(row, tokens=4, depth=min(row.depth, 16))


def serve(load: Callable[[], tuple[Callable[[WorkerRow, int], float], dict[str, Any]]]) -> None:
    """Load, then measure rows until stdin ends.

    Args:
        load: returns the function that measures (row, number) in tokens a second, and facts for the results.
    """
    os.setpgid(0, 0)  # so that signals reach what the engine starts too
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # prints of libraries must not mix with answers

    def answer(**fields: Any) -> None:
        answers.write(json.dumps(fields) + "\n")

    try:
        measure, facts = load()
    except Exception as problem:
        traceback.print_exc()
        answer(error=sentence(problem))
        return
    answer(ready=facts)
    seen: set[WorkerRow] = set()
    for number, line in enumerate(sys.stdin):
        row = WorkerRow(**json.loads(line))
        try:
            if row not in seen:
                measure(warm_up(row), -1 - number)
                seen.add(row)
            answer(rate=measure(row, number))
        except Exception as problem:
            traceback.print_exc()
            answer(error=sentence(problem))


def sentence(problem: Exception) -> str:
    """The last line of what an exception says."""
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[-1] if lines else 'no message'}"
