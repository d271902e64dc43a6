"""Percentiles of a measured quantity."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A sample in figures, all in the sample's unit. `count` is how many values there were."""

    count: int
    mean: float
    min: float
    p50: float
    p90: float
    p99: float
    max: float


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the ascending values lie, linear between neighbours."""
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def summarize(values: Sequence[float]) -> Summary | None:
    """Summarize a sample; None when it is empty."""
    if not values:
        return None
    ordered = sorted(values)
    return Summary(
        count=len(ordered),
        mean=sum(ordered) / len(ordered),
        min=ordered[0],
        p50=percentile(ordered, 0.5),
        p90=percentile(ordered, 0.9),
        p99=percentile(ordered, 0.99),
        max=ordered[-1],
    )


def median(values: Sequence[float]) -> float:
    """The middle value.

    Raises:
        ValueError: there are none.
    """
    if not values:
        raise ValueError("There is no median of no values.")
    return percentile(sorted(values), 0.5)
