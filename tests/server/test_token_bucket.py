"""The bucket: in no span more than it holds and what flows in; debts are paid, refunds are not more than was taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenfold.server.token_bucket import TokenBucket

# Binary fractions of a second and limits that divide by 60, so that sums are exact.
LIMITS = st.integers(1, 50).map(lambda n: n * 60)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 8 * 90),  # eighths of a second to wait before
        st.sampled_from(["take", "charge", "refund"]),
        st.integers(0, 4000),
    ),
    max_size=40,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(LIMITS, STEPS)
def test_no_span_gets_more_than_the_bucket_and_the_inflow(limit, steps):
    clock = Clock()
    bucket = TokenBucket(limit, clock)
    taken: list[tuple[float, int]] = []
    for wait, _, units in steps:
        clock.now += wait / 8
        if bucket.take(units):
            taken.append((clock.now, units))
        for start, _ in taken:
            used = sum(amount for at, amount in taken if at >= start)
            assert used <= limit + limit * (clock.now - start) / 60


@given(LIMITS, STEPS)
def test_it_is_what_its_books_say(limit, steps):
    """Against the plainest model: a level that flows up to the limit."""
    clock = Clock()
    bucket = TokenBucket(limit, clock)
    level = float(limit)
    for wait, what, units in steps:
        clock.now += wait / 8
        level = min(limit, level + wait / 8 * limit / 60)
        if what == "take":
            assert bucket.take(units) == (units <= level)
            level -= units if units <= level else 0
        elif what == "charge":
            bucket.charge(units)
            level -= units
        else:
            bucket.refund(units)
            level = min(limit, level + units)
        assert bucket.level == level
        assert bucket.remaining == max(0, int(level // 1))


@given(LIMITS, st.integers(1, 4000), st.integers(0, 8000))
def test_after_the_wait_it_is_there(limit, units, used):
    clock = Clock()
    bucket = TokenBucket(limit, clock)
    bucket.charge(used)
    clock.now += bucket.wait(units) + 1e-6
    assert bucket.take(min(units, limit))


@given(LIMITS, LIMITS, st.integers(0, 4000))
def test_a_new_limit_forgets_no_use(limit, other, used):
    bucket = TokenBucket(limit, Clock())
    bucket.charge(used)
    bucket.change(other)
    assert bucket.level == other - used


def test_a_clock_that_stands_or_goes_back_gives_nothing():
    clock = Clock()
    bucket = TokenBucket(60, clock)
    assert bucket.take(60)
    clock.now -= 100
    assert not bucket.take(1)
    clock.now += 101
    assert bucket.take(1)
