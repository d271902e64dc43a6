"""Measuring a row: rounds of everyone in turn, and who is not asked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.entrant import Entrant, PeerError, Sample
from bench.scenarios import Row

KEEP = 0.5
"""A peer whose first sample is below this share of the best peer's is not measured again."""
KEEP_SLOW = 0.9
"""The same where a sample takes longer than SLOW_SECONDS."""
SLOW_SECONDS = 10.0

Report = Callable[[Row, int, str, str], None]


@dataclass
class Course:
    """What became of an entrant on a row.

    Args:
        entrant: who.
        samples: in order.
        state: "measured", "once" (it was not worth repeating) or "failed".
        why: a sentence for the latter two.
        seconds: that its first sample took, loading included.
    """

    entrant: Entrant
    samples: list[Sample] = field(default_factory=list)
    state: str = "measured"
    why: str = ""
    seconds: float = 0.0

    @property
    def goes_on(self) -> bool:
        """Whether it is measured in the next round."""
        return self.state == "measured"

    def measure(self, row: Row) -> str:
        """Take a sample, or note the failure; returns what to show of it."""
        begin = time.perf_counter()
        try:
            sample = self.entrant.measure(row)
        except PeerError as problem:
            self.state, self.why = "failed", str(problem).strip().splitlines()[-1]
            return f"failed: {self.why}"
        if not self.samples:
            self.seconds = time.perf_counter() - begin
        self.samples.append(sample)
        return f"{sample.rate:.1f} tokens/s"


def measure_row(row: Row, entrants: Sequence[Entrant], repeats: int, report: Report) -> list[Course]:
    """Measure a row `repeats` times, one entrant after the other in each round. Tenfold is the first entrant.

    `report` is called before and after each sample with (row, round, label, what came of it).
    """
    courses = [Course(entrant) for entrant in entrants]
    for number in range(repeats):
        for course in courses:
            if course.goes_on:
                report(row, number, course.entrant.label, "")
                report(row, number, course.entrant.label, course.measure(row))
        if number == 0 and repeats > 1:
            drop_hopeless(courses)
    return courses


def drop_hopeless(courses: Sequence[Course]) -> None:
    """After the first round: peers that cannot be the best are not measured again, slow ones the sooner."""
    peers = [course for course in courses if course.entrant.engine != "tenfold" and course.samples]
    best = max((course.samples[0].rate for course in peers), default=0.0)
    for course in peers:
        keep = KEEP_SLOW if course.seconds > SLOW_SECONDS else KEEP
        if course.goes_on and course.samples[0].rate < keep * best:
            course.state = "once"
            course.why = f"its first sample was below {keep:.0%} of the best peer's"


def figure(course: Course) -> dict[str, Any]:
    """An entrant's figures on a row, for the results."""
    rates = [sample.rate for sample in course.samples]
    return {
        "engine": course.entrant.engine,
        "label": course.entrant.label,
        "state": course.state,
        "why": course.why,
        "median": median(rates) if rates else None,
        "lowest": min(rates, default=None),
        "highest": max(rates, default=None),
        "tokens_per_s": rates,
        "details": [sample.details for sample in course.samples],
    }
