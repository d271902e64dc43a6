"""A histogram cheap enough to feed once a token."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts of values in buckets, and their sum; used by one thread.

    Args:
        bounds: upper bounds of the buckets, rising; values above the last count into an endless bucket.
    """

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.total = 0.0
        self._counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        """Count `value`, `times` times."""
        self._counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Values counted so far."""
        return sum(self._counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper bound, values up to it) for each bucket, in Prometheus's form, ending with "+Inf"."""
        rows: list[tuple[str, float]] = []
        running = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self._counts, strict=True):
            running += count
            rows.append((bound, float(running)))
        return rows
