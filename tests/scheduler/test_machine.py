"""Random traffic over tiny caches: a fake model computes plans, and remembers what each block holds."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from tenfold.core.errors import InvalidRequestError, OverloadedError
from tenfold.core.sampling_params import SamplingParams
from tenfold.kv.manager import KVManager
from tenfold.scheduler.config import SchedulerConfig
from tenfold.scheduler.scheduler import Scheduler
from tenfold.scheduler.sequence import Sequence, SequenceStatus

MAX_WAITING = 8
MAX_NEW = 12


class FakeModel:
    """Writes into each KV slot what the real one would depend on: the salt and all tokens up to there.

    A chunk may be computed only if its sequence's slots hold exactly its own history, which shows any block
    that was shared, freed, evicted or overwritten wrongly.
    """

    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.slots = [[None] * block_size for _ in range(num_blocks)]
        self.scored = []

    def run(self, plan, scheduler):
        written = {}
        for chunk in plan.chunks:
            seq = scheduler.get(chunk.seq_id)
            history = tuple(seq.prompt_ids) + tuple(seq.output_ids)
            stop = chunk.start + len(chunk.token_ids)
            assert chunk.token_ids == history[chunk.start : stop]
            assert chunk.sample == (stop == len(history))
            assert len(chunk.block_ids) == -(-stop // self.block_size)
            if chunk.scoring is not None:
                first = chunk.start + chunk.scoring.first
                targets = chunk.scoring.targets
                assert targets == history[first + 1 : first + 1 + len(targets)]
                assert first + len(targets) == min(stop, seq.prompt_len - 1)
                self.scored.append((seq.seq_id, first, first + len(targets)))
            for position in range(chunk.start):
                held = self.slot(chunk, position)
                assert held == (seq.salt, history[: position + 1]), (
                    f"position {position} of {seq.seq_id}: {held}"
                )
            for position in range(chunk.start, stop):
                written[chunk.block_ids[position // self.block_size]] = seq.seq_id
                self.put(chunk, position, (seq.salt, history[: position + 1]))
        for chunk in plan.chunks:
            for block in chunk.block_ids:
                writer = written.get(block, chunk.seq_id)
                assert writer == chunk.seq_id, f"block {block} is written by {writer}, read by {chunk.seq_id}"

    def slot(self, chunk, position):
        return self.slots[chunk.block_ids[position // self.block_size]][position % self.block_size]

    def put(self, chunk, position, value):
        self.slots[chunk.block_ids[position // self.block_size]][position % self.block_size] = value


class Traffic(RuleBasedStateMachine):
    """Add, step, abort in any order; at the end everything admitted must complete."""

    live = Bundle("live")

    @initialize(
        num_blocks=st.integers(3, 10),
        block_size=st.sampled_from([1, 2, 3, 4]),
        max_num_seqs=st.integers(1, 5),
        spare_budget=st.integers(0, 8),
        max_chunk=st.none() | st.integers(1, 6),
        beside=st.none() | st.integers(1, 6),
        chunked=st.booleans(),
        caching=st.booleans(),
    )
    def build(self, num_blocks, block_size, max_num_seqs, spare_budget, max_chunk, beside, chunked, caching):
        max_model_len = max(2, num_blocks * block_size - spare_budget % 3)
        budget = max_num_seqs + spare_budget
        if not chunked:
            budget = max(budget, max_model_len)
        self.config = SchedulerConfig(
            max_num_batched_tokens=budget,
            max_num_seqs=max_num_seqs,
            max_model_len=max_model_len,
            max_waiting=MAX_WAITING,
            enable_chunked_prefill=chunked,
            max_chunk_tokens=max_chunk,
            max_prefill_beside_decodes=beside,
        )
        self.kv = KVManager(num_blocks, block_size, enable_prefix_caching=caching)
        self.scheduler = Scheduler(self.config, self.kv)
        self.model = FakeModel(num_blocks, block_size)
        self.next_id = 0
        self.frontier = {}
        self.finished = set()
        self.budget_of = {}
        self.scored = {}

    @rule(
        target=live,
        stem=st.integers(0, 2),
        length=st.integers(1, 12),
        tail=st.integers(0, 2),
        n=st.integers(1, 3),
        priority=st.integers(0, 2),
        salt=st.sampled_from(["", "tenant"]),
        max_tokens=st.sampled_from([None, None, 1, 3, 8]),
        scores=st.sampled_from([None, None, 2]),
    )
    def add(self, stem, length, tail, n, priority, salt, max_tokens, scores):
        # Few distinct tokens and stems, so that prefixes are often shared, wholly or in part.
        prompt = [stem] * length + [7] * tail
        group = []
        for index in range(n):
            sampling = SamplingParams(max_tokens=max_tokens, n=n, prompt_logprobs=scores)
            group.append(
                Sequence(
                    seq_id=self.next_id,
                    request_id=f"r{self.next_id}",
                    index=index,
                    prompt_ids=prompt,
                    sampling=sampling,
                    priority=priority,
                    salt=salt,
                )
            )
            self.next_id += 1
        limit = self.scheduler.max_sequence_tokens
        try:
            self.scheduler.add_all(group)
        except InvalidRequestError as error:
            assert error.code == "context_length_exceeded"
            assert len(prompt) + (max_tokens or 1) > limit
            return multiple()
        except OverloadedError:
            assert self.scheduler.num_waiting + n > MAX_WAITING
            return multiple()
        assert len(prompt) + (max_tokens or 1) <= limit
        for seq in group:
            self.budget_of[seq.seq_id] = min(max_tokens or MAX_NEW, limit - len(prompt))
        return multiple(*(seq.seq_id for seq in group))

    @rule(seq_id=consumes(live))
    def abort(self, seq_id):
        self.scheduler.finish(seq_id)
        assert self.scheduler.get(seq_id) is None
        self.finished.add(seq_id)

    @rule(token=st.integers(0, 2), times=st.integers(1, 8))
    def steps(self, token, times):
        for _ in range(times):
            self.one_step(token)

    @rule(seq_id=consumes(live), token=st.integers(0, 2))
    def abort_in_mid_step(self, seq_id, token):
        self.one_step(token, aborted=seq_id)
        self.finished.add(seq_id)

    @rule()
    def fail_a_step(self):
        """The runner fails: the plan is dropped, whatever it had written."""
        plan = self.scheduler.schedule()
        self.note(plan)
        self.model.run(plan, self.scheduler)

    def note(self, plan):
        for seq_id in plan.preempted:
            assert self.scheduler.get(seq_id).status is SequenceStatus.PREEMPTED
            self.frontier.pop(seq_id, None)

    def one_step(self, token, aborted=None):
        scheduler = self.scheduler
        before = {seq_id: scheduler.get(seq_id) for seq_id in self.budget_of if scheduler.get(seq_id)}
        plan = scheduler.schedule()
        scheduler.check()
        self.note(plan)
        assert bool(plan.chunks) == scheduler.has_work(), f"nothing is planned: {plan.reasons}"
        assert plan.num_tokens <= self.config.max_num_batched_tokens
        assert not {chunk.seq_id for chunk in plan.chunks} & set(plan.preempted)
        assert len({chunk.seq_id for chunk in plan.chunks}) == len(plan.chunks) <= self.config.max_num_seqs
        running = [seq for seq in before.values() if seq.status is SequenceStatus.RUNNING]
        if running:
            first = min(running, key=lambda seq: seq.rank)
            assert first.seq_id in {chunk.seq_id for chunk in plan.chunks}, (
                "the first in rank makes no progress"
            )
            self.check_priorities(before, plan)
        self.model.scored = []
        self.model.run(plan, scheduler)
        for seq_id, first, end in self.model.scored:
            assert first == self.scored.get(seq_id, 0), "a row is scored twice, or skipped"
            self.scored[seq_id] = end
        for chunk in plan.chunks:
            start = self.frontier.get(chunk.seq_id)
            assert start is None or start == chunk.start, "a token is computed twice, or skipped"
        if aborted is not None:
            scheduler.finish(aborted)
            scheduler.check()
        sampled = {chunk.seq_id: (token + chunk.seq_id) % 3 for chunk in plan.chunks if chunk.sample}
        scheduler.update(plan, sampled)
        for chunk in plan.chunks:
            self.frontier[chunk.seq_id] = chunk.start + len(chunk.token_ids)
            seq = scheduler.get(chunk.seq_id)
            if seq is not None:
                assert seq.num_computed == self.frontier[chunk.seq_id]
                assert seq.cached_tokens < seq.prompt_len and seq.cached_tokens % self.kv.block_size == 0
                wanted = seq.sampling.prompt_logprobs is not None and seq.index == 0
                if chunk.sample and wanted:
                    assert self.scored.get(seq.seq_id, 0) == seq.prompt_len - 1
                if len(seq.output_ids) >= self.budget_of[chunk.seq_id]:
                    scheduler.finish(chunk.seq_id)
                    self.finished.add(chunk.seq_id)

    def check_priorities(self, before, plan):
        """Whoever is put out ranks after someone who computes in this step."""
        best = min(before[chunk.seq_id].rank for chunk in plan.chunks)
        for seq_id in plan.preempted:
            assert before[seq_id].rank > best

    @invariant()
    def all_agree(self):
        if hasattr(self, "scheduler"):
            self.scheduler.check()

    def teardown(self):
        if not hasattr(self, "scheduler"):
            return
        tokens = sum(
            seq.num_tokens + self.budget_of[seq_id] for seq_id, seq in self.scheduler._sequences.items()
        )
        # Each step moves the first of the running on by a token or more; it loses that work at most once to
        # each more important one that waits, so this many steps are always enough.
        bound = tokens * (len(self.scheduler._sequences) + 1)
        for number in range(bound + 1):
            if not self.scheduler.has_work():
                break
            self.one_step(number % 3)
        assert not self.scheduler.has_work(), "a sequence never completed"
        assert self.finished == set(self.budget_of)
        self.scheduler.check()
        assert self.kv.usage == 0 and self.kv.num_free_blocks == self.kv.num_blocks
        assert len(self.scheduler._in_flight) == 0


Traffic.TestCase.settings = settings(
    max_examples=250,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestTraffic = Traffic.TestCase
