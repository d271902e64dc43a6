"""A token bucket: how much may go through at once, and how much in the long run."""

from __future__ import annotations

import math
from collections.abc import Callable


class TokenBucket:
    """Holds a minute's worth and fills evenly; what is taken from it is never more than it holds.

    In any span of s seconds at most limit + limit * s / 60 can be taken: a full bucket, and what flows in meanwhile.
    `charge` is for what can be counted only afterwards; it may leave the bucket in debt, which has to flow in before
    anything can be taken again.

    Args:
        limit: units a minute, and the most it holds.
        clock: seconds that never go back.
    """

    __slots__ = ("_clock", "_level", "_seen", "limit")

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self.limit = limit
        self._clock = clock
        self._level = float(limit)
        self._seen = clock()

    @property
    def level(self) -> float:
        """Units there now; below zero is debt."""
        now = self._clock()
        if now > self._seen:
            self._level = min(float(self.limit), self._level + (now - self._seen) * self.limit / 60)
            self._seen = now
        return self._level

    @property
    def remaining(self) -> int:
        """Whole units that could be taken now."""
        return max(0, math.floor(self.level))

    def take(self, units: int) -> bool:
        """Take so many units, or none and say False."""
        if units > self.level:
            return False
        self._level -= units
        return True

    def charge(self, units: int) -> None:
        """Take units that were used already."""
        self._level = self.level - units

    def refund(self, units: int) -> None:
        """Put back what was taken and not used."""
        self._level = min(float(self.limit), self.level + units)

    def wait(self, units: int) -> float:
        """Seconds until so many units (or all that it can hold) are there."""
        return max(0.0, min(units, self.limit) - self.level) * 60 / self.limit

    def change(self, limit: int) -> None:
        """Another limit: what was used stays used."""
        used = self.limit - self.level
        self.limit = limit
        self._level = limit - used
