from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.lab.summary import median, percentile, summarize


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 1))
def test_percentiles_are_numpys(values: list[float], share: float) -> None:
    expected = np.percentile(values, 100 * share)
    assert percentile(sorted(values), share) == pytest.approx(expected, abs=1e-6)


def test_summary_of_a_sample() -> None:
    summary = summarize([3.0, 1.0, 2.0, 10.0])
    assert summary is not None
    assert (summary.count, summary.min, summary.p50, summary.max, summary.mean) == (4, 1.0, 2.5, 10.0, 4.0)


def test_no_values() -> None:
    assert summarize([]) is None
    with pytest.raises(ValueError, match="no median"):
        median([])
