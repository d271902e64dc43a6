import pytest

from tenfold.core.errors import EngineError, InvalidRequestError, OverloadedError
from tenfold.core.sampling_params import SamplingParams
from tenfold.kv.manager import KVManager
from tenfold.scheduler.config import SchedulerConfig
from tenfold.scheduler.scheduler import Scheduler
from tenfold.scheduler.sequence import Sequence, SequenceStatus

BLOCK = 4


def scheduler_of(blocks=64, *, caching=True, **limits):
    limits = {"max_num_batched_tokens": 16, "max_num_seqs": 8, "max_model_len": 64, **limits}
    kv = KVManager(blocks, BLOCK, enable_prefix_caching=caching)
    return Scheduler(SchedulerConfig(**limits), kv)


def sequence(seq_id, prompt, *, max_tokens=None, **rest):
    sampling = SamplingParams(max_tokens=max_tokens)
    return Sequence(
        seq_id=seq_id, request_id=f"r{seq_id}", prompt_ids=tuple(prompt), sampling=sampling, **rest
    )


def prompt(seq_id, length):
    return [seq_id * 1000 + position for position in range(length)]


def step(scheduler, token=7):
    plan = scheduler.schedule()
    scheduler.check()
    scheduler.update(plan, {chunk.seq_id: token for chunk in plan.chunks if chunk.sample})
    scheduler.check()
    return plan


def shape(plan):
    return [(chunk.seq_id, chunk.start, len(chunk.token_ids), chunk.sample) for chunk in plan.chunks]


def test_a_prompt_is_computed_in_chunks_then_decoded():
    scheduler = scheduler_of()
    scheduler.add(sequence(1, range(20)))
    assert shape(step(scheduler)) == [(1, 0, 16, False)]
    plan = step(scheduler, token=42)
    assert shape(plan) == [(1, 16, 4, True)]
    assert plan.chunks[0].token_ids == (16, 17, 18, 19)
    assert len(plan.chunks[0].block_ids) == 5
    plan = step(scheduler)
    assert shape(plan) == [(1, 20, 1, True)]
    assert plan.chunks[0].token_ids == (42,)
    assert len(plan.chunks[0].block_ids) == 6
    assert scheduler.get(1).output_ids == [42, 7]
    scheduler.finish(1)
    assert not scheduler.has_work() and scheduler.get(1) is None
    assert scheduler.kv.usage == 0
    scheduler.check()


def test_steps_are_numbered_and_an_empty_scheduler_plans_nothing():
    scheduler = scheduler_of()
    assert [step(scheduler).step for _ in range(3)] == [0, 1, 2]
    assert not scheduler.has_work()


def test_decodes_come_first_and_prompts_get_the_rest():
    scheduler = scheduler_of()
    for seq_id in (1, 2, 3):
        scheduler.add(sequence(seq_id, prompt(seq_id, 3)))
    step(scheduler)
    scheduler.add(sequence(4, prompt(4, 40)))
    plan = step(scheduler)
    assert shape(plan) == [(1, 3, 1, True), (2, 3, 1, True), (3, 3, 1, True), (4, 0, 13, False)]
    assert plan.num_tokens == 16
    assert any("Sequence 4 is cut short: 13 of 40 tokens" in reason for reason in plan.reasons)


def test_chunk_blocks_cover_the_chunk_exactly():
    scheduler = scheduler_of()
    scheduler.add(sequence(1, range(40)))
    lengths = [len(step(scheduler).chunks[0].block_ids) for _ in range(4)]
    assert lengths == [4, 8, 10, 11]


def test_max_chunk_tokens_shares_a_step_among_prompts():
    scheduler = scheduler_of(max_chunk_tokens=6)
    for seq_id in (1, 2, 3):
        scheduler.add(sequence(seq_id, prompt(seq_id, 20)))
    plan = step(scheduler)
    assert [size for _, _, size, _ in shape(plan)] == [6, 6, 4]
    assert any("6 of 20 tokens, the limit of a chunk" in reason for reason in plan.reasons)


def test_prompts_get_little_of_a_step_in_which_others_decode():
    scheduler = scheduler_of(max_num_batched_tokens=64, max_prefill_beside_decodes=5)
    for seq_id in (1, 2, 3):
        scheduler.add(sequence(seq_id, prompt(seq_id, 4)))
    assert shape(step(scheduler)) == [(1, 0, 4, True), (2, 0, 4, True), (3, 0, 4, True)]
    scheduler.add(sequence(4, prompt(4, 14)))
    plan = step(scheduler)
    # Two for each of the three that decode are more than five.
    assert shape(plan) == [(1, 4, 1, True), (2, 4, 1, True), (3, 4, 1, True), (4, 0, 6, False)]
    assert "Prompts get 6 tokens: 3 sequences decode and wait for this step." in plan.reasons
    for seq_id in (2, 3):
        scheduler.finish(seq_id)
    assert shape(step(scheduler)) == [(1, 5, 1, True), (4, 6, 5, False)]
    scheduler.finish(1)
    assert shape(step(scheduler)) == [(4, 11, 3, True)]


def test_without_chunked_prefill_prompts_are_computed_whole():
    scheduler = scheduler_of(enable_chunked_prefill=False, max_num_batched_tokens=64)
    scheduler.add(sequence(1, prompt(1, 40)))
    scheduler.add(sequence(2, prompt(2, 30)))
    plan = step(scheduler)
    assert shape(plan) == [(1, 0, 40, True)]
    assert any("its 30 tokens must be computed at once and 24 are left" in reason for reason in plan.reasons)
    assert shape(step(scheduler)) == [(1, 40, 1, True), (2, 0, 30, True)]


def test_priority_then_arrival():
    scheduler = scheduler_of(max_num_seqs=1)
    scheduler.add(sequence(1, prompt(1, 4), priority=5))
    scheduler.add(sequence(2, prompt(2, 4), priority=1))
    scheduler.add(sequence(3, prompt(3, 4), priority=1))
    order = []
    while scheduler.has_work():
        order.append(step(scheduler).chunks[0].seq_id)
        scheduler.finish(order[-1])
    assert order == [2, 3, 1]


def test_a_given_arrival_is_kept():
    scheduler = scheduler_of(max_num_seqs=1)
    scheduler.add(sequence(1, prompt(1, 4), arrival=10))
    scheduler.add(sequence(2, prompt(2, 4), arrival=3))
    scheduler.add(sequence(3, prompt(3, 4)))
    assert scheduler.get(3).arrival == 11
    assert step(scheduler).chunks[0].seq_id == 2


def test_a_more_important_sequence_takes_a_slot():
    scheduler = scheduler_of(max_num_seqs=2)
    scheduler.add(sequence(1, prompt(1, 9), priority=1))
    scheduler.add(sequence(2, prompt(2, 5), priority=1))
    step(scheduler)
    step(scheduler)
    scheduler.add(sequence(3, prompt(3, 4), priority=0))
    plan = step(scheduler)
    assert plan.preempted == (2,)
    assert scheduler.get(2).status is SequenceStatus.PREEMPTED
    assert {chunk.seq_id for chunk in plan.chunks} == {1, 3}
    assert any(
        "Sequence 2 is preempted: sequence 3 has a more important priority, 0" in r for r in plan.reasons
    )
    assert any("Sequence 2 waits" not in r for r in plan.reasons)
    scheduler.finish(3)
    plan = step(scheduler)
    chunk = next(chunk for chunk in plan.chunks if chunk.seq_id == 2)
    assert chunk.start == 4 and chunk.token_ids == (2004, 7, 7), "the published block is found again"
    assert scheduler.get(2).cached_tokens == 0 and scheduler.get(2).num_preemptions == 1


def test_equals_do_not_take_slots():
    scheduler = scheduler_of(max_num_seqs=1)
    scheduler.add(sequence(1, prompt(1, 4)))
    step(scheduler)
    scheduler.add(sequence(2, prompt(2, 4)))
    scheduler.add(sequence(3, prompt(3, 4)))
    plan = step(scheduler)
    assert plan.preempted == () and [chunk.seq_id for chunk in plan.chunks] == [1]
    assert plan.reasons == ("Sequence 2 waits, and 1 behind it: all 1 slots are taken.",)


def test_a_more_important_sequence_puts_nobody_out_in_vain():
    scheduler = scheduler_of(blocks=10, max_model_len=40)
    scheduler.add(sequence(1, prompt(1, 20), priority=0))
    scheduler.add(sequence(2, prompt(2, 8), priority=9))
    step(scheduler)
    scheduler.add(sequence(3, prompt(3, 30), priority=1))
    plan = step(scheduler)
    assert plan.preempted == ()
    assert any("Sequence 3 waits" in reason and "needs 8 blocks" in reason for reason in plan.reasons)


def test_short_of_blocks_the_last_pauses_and_the_first_puts_out_the_least_sunk_work():
    scheduler = scheduler_of(blocks=8, max_num_batched_tokens=32, max_model_len=32)
    for seq_id, length in ((1, 6), (2, 2), (3, 9)):
        scheduler.add(sequence(seq_id, prompt(seq_id, length)))
    plans = [step(scheduler) for _ in range(4)]
    assert all(len(plan.chunks) == 3 for plan in plans)
    pause = step(scheduler)
    assert [chunk.seq_id for chunk in pause.chunks] == [1, 2]
    assert pause.reasons == ("Sequence 3 pauses: no block is free and none ranks after it.",)
    assert pause.preempted == () and len(scheduler.get(3).lease.block_ids) == 3
    while not (plan := step(scheduler)).preempted:
        assert [chunk.seq_id for chunk in plan.chunks] == [1, 2]
    assert plan.preempted == (2,), "sequence 3 is newer, but more of its work would be lost"
    assert scheduler.get(2).output_ids and scheduler.get(2).num_computed == 0
    assert [chunk.seq_id for chunk in plan.chunks] == [1, 3]
    assert any(
        "Sequence 2 is preempted: sequence 1 needs its next block" in reason for reason in plan.reasons
    )


def test_siblings_wait_for_the_shared_prompt_and_compute_it_once():
    scheduler = scheduler_of()
    shared = list(range(30))
    scheduler.add_all([sequence(seq_id, shared, index=seq_id) for seq_id in range(4)])
    plan = step(scheduler)
    assert shape(plan) == [(0, 0, 16, False)]
    assert "Sequences wait for blocks that sequence 0 is computing: 3." in plan.reasons
    assert shape(step(scheduler)) == [(0, 16, 14, True)]
    plan = step(scheduler)
    assert shape(plan) == [(0, 30, 1, True), (1, 28, 2, True), (2, 28, 2, True), (3, 28, 2, True)]
    tables = [chunk.block_ids for chunk in plan.chunks]
    assert all(table[:7] == tables[0][:7] for table in tables)
    assert len({table[7] for table in tables}) == 4
    assert [scheduler.get(seq_id).cached_tokens for seq_id in range(4)] == [0, 28, 28, 28]


def test_waiting_for_a_sibling_does_not_hold_up_others():
    scheduler = scheduler_of(max_chunk_tokens=8)
    scheduler.add(sequence(1, range(30)))
    scheduler.add(sequence(2, range(30)))
    scheduler.add(sequence(3, prompt(3, 5)))
    assert [chunk.seq_id for chunk in step(scheduler).chunks] == [1, 3]


def test_other_salts_do_not_wait_and_do_not_share():
    scheduler = scheduler_of(max_num_batched_tokens=64)
    scheduler.add(sequence(1, range(20), salt="a"))
    scheduler.add(sequence(2, range(20), salt="b"))
    plan = step(scheduler)
    assert shape(plan) == [(1, 0, 20, True), (2, 0, 20, True)]
    assert not set(plan.chunks[0].block_ids) & set(plan.chunks[1].block_ids)


@pytest.mark.parametrize("steps", [0, 1])
def test_a_follower_goes_on_when_its_leader_is_aborted(steps):
    scheduler = scheduler_of()
    scheduler.add(sequence(1, range(40)))
    scheduler.add(sequence(2, range(40)))
    plan = scheduler.schedule()
    for _ in range(steps):
        scheduler.update(plan, {})
        plan = scheduler.schedule()
    scheduler.finish(1)
    scheduler.update(plan, {})
    scheduler.check()
    assert shape(step(scheduler)) == [(2, 16 * steps, 16, False)]
    assert scheduler.get(2).cached_tokens == 16 * steps


def test_a_follower_goes_on_when_its_leader_is_preempted():
    scheduler = scheduler_of(max_num_seqs=1)
    scheduler.add(sequence(1, range(40), priority=3))
    scheduler.add(sequence(2, range(40), priority=3))
    step(scheduler)
    scheduler.add(sequence(3, prompt(3, 3)))
    assert step(scheduler).preempted == (1,)
    scheduler.finish(1)
    scheduler.finish(3)
    assert shape(step(scheduler)) == [(2, 16, 16, False)]


def test_a_more_important_follower_does_not_wait():
    scheduler = scheduler_of(max_num_batched_tokens=16)
    scheduler.add(sequence(1, range(40), priority=3))
    step(scheduler)
    scheduler.add(sequence(2, range(40), priority=0))
    assert shape(step(scheduler)) == [(2, 16, 16, False)]
    for _ in range(3):
        step(scheduler)
    assert scheduler.get(1).lease.block_ids[:8] == scheduler.get(2).lease.block_ids[:8]


def test_a_later_turn_finds_prompt_and_output_of_the_first():
    scheduler = scheduler_of()
    scheduler.add(sequence(1, range(10)))
    for token in range(50, 56):
        step(scheduler, token)
    scheduler.finish(1)
    scheduler.add(sequence(2, [*range(10), *range(50, 56), 1, 2, 3]))
    step(scheduler)
    assert scheduler.get(2).cached_tokens == 12


def test_without_prefix_caching_siblings_do_not_wait():
    scheduler = scheduler_of(caching=False, max_num_batched_tokens=64)
    scheduler.add(sequence(1, range(20)))
    scheduler.add(sequence(2, range(20)))
    assert shape(step(scheduler)) == [(1, 0, 20, True), (2, 0, 20, True)]
    scheduler.finish(1)
    scheduler.finish(2)
    assert scheduler.kv.num_cached_blocks == 0


def test_finish_in_any_state_frees_at_once():
    scheduler = scheduler_of(blocks=16, max_num_seqs=1)
    scheduler.add(sequence(1, prompt(1, 20), priority=1))
    step(scheduler)
    scheduler.add(sequence(2, prompt(2, 20), priority=0))
    scheduler.add(sequence(3, prompt(3, 20), priority=2))
    plan = scheduler.schedule()
    states = [scheduler.get(seq_id).status for seq_id in (1, 2, 3)]
    assert states == [SequenceStatus.PREEMPTED, SequenceStatus.RUNNING, SequenceStatus.WAITING]
    for seq_id in (1, 2, 3):
        scheduler.finish(seq_id)
        scheduler.check()
    assert scheduler.kv.usage == 0 and scheduler.num_running == scheduler.num_waiting == 0
    scheduler.update(plan, {})
    scheduler.finish(2)
    scheduler.check()
    assert not scheduler.has_work()


def test_a_dropped_plan_is_planned_again():
    scheduler = scheduler_of()
    scheduler.add(sequence(1, range(20)))
    lost = scheduler.schedule()
    plan = scheduler.schedule()
    assert plan.chunks == lost.chunks
    with pytest.raises(EngineError, match="step 0 was recorded already or replaced"):
        scheduler.update(lost, {})
    scheduler.update(plan, {})
    with pytest.raises(EngineError, match="step 1 was recorded already"):
        scheduler.update(plan, {})
    assert scheduler.get(1).num_computed == 16


def test_a_missing_sample_is_refused_and_nothing_is_recorded():
    scheduler = scheduler_of()
    scheduler.add(sequence(1, prompt(1, 4)))
    scheduler.add(sequence(2, prompt(2, 4)))
    plan = scheduler.schedule()
    with pytest.raises(ValueError, match="Sequence 2 is to sample a token"):
        scheduler.update(plan, {1: 5})
    assert scheduler.get(1).num_computed == 0
    scheduler.update(plan, {1: 5, 2: 6})
    assert scheduler.get(2).output_ids == [6]


def test_a_sequence_past_its_limit_is_reported():
    scheduler = scheduler_of(max_model_len=8)
    scheduler.add(sequence(1, prompt(1, 6)))
    for _ in range(3):
        step(scheduler)
    with pytest.raises(EngineError, match="Sequence 1 has 9 tokens, its limit is 8"):
        scheduler.schedule()


def test_a_full_queue_refuses_and_takes_all_or_none():
    scheduler = scheduler_of(max_waiting=3)
    scheduler.add(sequence(1, prompt(1, 4)))
    with pytest.raises(OverloadedError, match="1 completions wait already and the limit is 3") as caught:
        scheduler.add_all([sequence(seq_id, prompt(2, 4)) for seq_id in (2, 3, 4)])
    assert caught.value.retry_after >= 1
    assert scheduler.num_waiting == 1 and scheduler.get(2) is None
    step(scheduler)
    scheduler.add_all([sequence(seq_id, prompt(2, 4)) for seq_id in (2, 3, 4)])
    assert scheduler.num_waiting == 3


def test_ids_are_unique_and_a_sequence_is_added_once():
    scheduler = scheduler_of()
    scheduler.add(sequence(1, prompt(1, 4)))
    with pytest.raises(ValueError, match="Sequence id 1 is taken"):
        scheduler.add(sequence(1, prompt(1, 4)))
    with pytest.raises(ValueError, match="is taken"):
        scheduler.add_all([sequence(2, prompt(2, 4)), sequence(2, prompt(2, 4))])
    used = scheduler.get(1)
    scheduler.finish(1)
    with pytest.raises(ValueError, match="Sequence 1 was added before"):
        scheduler.add(used)


def test_what_can_never_fit_is_refused():
    scheduler = scheduler_of()
    with pytest.raises(InvalidRequestError, match="has 64 tokens and the model's context holds 64") as caught:
        scheduler.add(sequence(1, range(64)))
    assert caught.value.code == "context_length_exceeded"
    assert scheduler.num_waiting == 0
    scheduler.add(sequence(1, range(63)))


def test_a_decode_step_does_no_work_that_grows_with_the_context():
    scheduler = scheduler_of(max_num_batched_tokens=64)
    scheduler.add(sequence(1, prompt(1, 16)))
    step(scheduler)
    tables, hashed = [], []
    for _ in range(8):
        tables.append(step(scheduler).chunks[0].block_ids)
        hashed.append(len(scheduler.get(1).chain.digests))
    assert len({id(table) for table in tables}) == 2, "the block table is rebuilt only when a block is added"
    assert hashed == [4, 4, 4, 5, 5, 5, 5, 6], "a block is hashed once, when it is full"
