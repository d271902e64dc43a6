"""Histogram counts every value once, in its bucket."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenfold.observe.histogram import Histogram

_bounds = st.lists(st.floats(-10, 10), min_size=1, max_size=6, unique=True).map(sorted)


@given(_bounds, st.lists(st.tuples(st.floats(-20, 20), st.integers(1, 3)), max_size=30))
def test_like_counting_by_hand(bounds, values):
    histogram = Histogram(bounds)
    for value, times in values:
        histogram.observe(value, times)
    flat = [value for value, times in values for _ in range(times)]
    assert histogram.count == len(flat)
    assert abs(histogram.total - sum(flat)) < 1e-6
    rows = histogram.cumulative()
    assert rows[-1] == ("+Inf", len(flat))
    assert [count for _, count in rows[:-1]] == [sum(value <= bound for value in flat) for bound in bounds]
