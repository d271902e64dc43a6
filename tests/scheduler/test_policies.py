from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.scheduler.policies import (
    Candidate,
    admission,
    admission_rank,
    choose_victims,
    chunk_size,
    next_victim,
    prefill_room,
)


@given(st.integers(1, 99), st.integers(0, 99), st.none() | st.integers(1, 99), st.booleans())
def test_a_chunk_never_exceeds_rest_budget_and_limit(remaining, budget, max_chunk, chunked):
    choice = chunk_size(remaining, budget, max_chunk, chunked=chunked)
    assert 0 <= choice.value <= min(remaining, budget)
    assert choice.reason
    if chunked:
        assert choice.value == min(remaining, budget, max_chunk or budget)
    else:
        assert choice.value in (0, remaining)
        assert (choice.value == 0) == (remaining > budget)


def test_a_cut_chunk_names_what_cut_it():
    assert "limit of a chunk" in chunk_size(20, 16, 8, chunked=True).reason
    assert "left in this step" in chunk_size(20, 5, 8, chunked=True).reason
    assert "at once" in chunk_size(20, 5, None, chunked=False).reason


def test_rank_is_priority_then_arrival():
    ranks = [
        admission_rank(1, 0, 9),
        admission_rank(0, 5, 3),
        admission_rank(0, 2, 8),
        admission_rank(1, 0, 2),
    ]
    assert sorted(ranks) == [(0, 2, 8), (0, 5, 3), (1, 0, 2), (1, 0, 9)]


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_admission_leaves_a_block_for_each_running_sequence(needed, free, running):
    choice = admission(needed, free, running)
    assert choice.value == (free - needed >= running)
    if not choice.value:
        assert f"needs {needed} blocks and {free} are free" in choice.reason


def test_victims_by_priority_then_sunk_work_then_arrival():
    low_old = Candidate(1, 5, 0, 10)
    low_new = Candidate(2, 5, 3, 10)
    low_sunk = Candidate(3, 5, 9, 99)
    high = Candidate(4, 0, 10, 0)
    left = [high, low_sunk, low_old, low_new]
    order = []
    while left:
        choice = next_victim(left)
        assert f"priority {choice.value.priority}" in choice.reason
        order.append(choice.value.seq_id)
        left.remove(choice.value)
    assert order == [2, 1, 3, 4]
    with pytest.raises(ValueError):
        next_victim([])


CANDIDATES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 5)), max_size=6)


@given(CANDIDATES, st.integers(1, 20))
def test_chosen_victims_suffice_and_none_is_needless(rows, needed):
    candidates = [Candidate(i, priority, i, sunk) for i, (priority, sunk, _) in enumerate(rows)]
    freed = {i: row[2] for i, row in enumerate(rows)}

    def enough(ids):
        return sum(freed[i] for i in ids) >= needed

    chosen = [choice.value.seq_id for choice in choose_victims(candidates, enough)]
    assert len(set(chosen)) == len(chosen)
    if enough(tuple(freed)):
        assert enough(chosen)
        assert not any(enough(rest) for rest in combinations(chosen, len(chosen) - 1))
    else:
        assert chosen == []


@pytest.mark.parametrize(
    ("budget", "decodes", "beside", "room"),
    [
        (512, 0, 32, 512),
        (512, 1, 32, 32),
        (512, 16, 32, 32),
        (512, 20, 32, 40),
        (512, 64, 32, 128),
        (64, 40, 32, 24),
        (64, 64, 32, 0),
        (512, 16, None, 496),
        (512, 16, 512, 496),
    ],
)
def test_prompts_room_beside_decodes(budget: int, decodes: int, beside: int | None, room: int) -> None:
    choice = prefill_room(budget, decodes, beside)
    assert choice.value == room
    assert ("sequences decode" in choice.reason) == (room < budget - decodes)
