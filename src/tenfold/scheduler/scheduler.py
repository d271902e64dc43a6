"""The scheduler: decides which tokens of which sequences each engine step computes."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as SequenceOf

from tenfold.core.errors import EngineError, OverloadedError
from tenfold.core.plan import StepPlan
from tenfold.kv.hashing import HashChain
from tenfold.kv.lease import Lease, Match
from tenfold.kv.manager import KVManager
from tenfold.scheduler.config import SchedulerConfig
from tenfold.scheduler.door import refuse_unfit
from tenfold.scheduler.draft import StepDraft
from tenfold.scheduler.in_flight import BlocksInFlight
from tenfold.scheduler.policies import Candidate, Choice, admission, admission_rank, choose_victims
from tenfold.scheduler.sequence import Sequence, SequenceStatus

_QUEUED = (SequenceStatus.WAITING, SequenceStatus.PREEMPTED)


def _rank(seq: Sequence) -> tuple[int, int, int]:
    return seq.rank


class Scheduler:
    """Continuous batching under one token budget, without phases.

    A step goes `plan = schedule()`, the runner executes the plan, `update(plan, sampled)`. `add` and `finish`
    may be called between any two of these calls, from the same thread. A plan that failed may be dropped: the
    next `schedule` plans the same tokens again.

    Order: lower priority first, then arrival. Sequences that decode get one token each; the rest of the
    budget goes to prompts in that order. A sequence leases the blocks of all its known tokens when it
    starts, and one more whenever its output crosses a block's end.

    When blocks run out, a sequence may put out only sequences ranked after itself; when there are none, it
    keeps its blocks and pauses. The first in rank can therefore always go on, so every sequence finishes at
    last. A waiting sequence may put out running ones, for blocks or a slot, only if their priority is
    strictly less important: among equals, whoever runs keeps running. A preempted sequence keeps its output
    and recomputes its KV.

    A waiting sequence whose next full block is just being computed by a running sequence waits for it, to
    share the block rather than compute it twice. It does not wait for one of a less important priority.

    A sequence whose prompt is scored computes all rows to be scored itself, whatever is cached; its blocks are shared
    like any other's.

    Args:
        config: the limits.
        kv: the KV blocks; nobody else may lease from it.
    """

    def __init__(self, config: SchedulerConfig, kv: KVManager) -> None:
        self.config = config
        self.kv = kv
        self._sequences: dict[int, Sequence] = {}
        self._running: list[Sequence] = []
        self._waiting: list[Sequence] = []
        self._cache_tokens = kv.num_blocks * kv.block_size
        self._in_flight = BlocksInFlight()
        self._arrivals = 0
        self._steps = 0
        self._open_step: int | None = None

    @property
    def num_running(self) -> int:
        """Sequences that hold KV blocks."""
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        """Sequences that hold none: not started yet, or preempted."""
        return len(self._waiting)

    @property
    def max_sequence_tokens(self) -> int:
        """Tokens of one sequence, prompt and output together, at most: what model and cache can hold."""
        return min(self.config.max_model_len, self._cache_tokens)

    def has_work(self) -> bool:
        """Whether any sequence is not finished; then the next plan has at least one chunk."""
        return bool(self._sequences)

    def get(self, seq_id: int) -> Sequence | None:
        """The live sequence with this id, or None if it is finished or unknown."""
        return self._sequences.get(seq_id)

    def add(self, seq: Sequence) -> None:
        """Queue a sequence.

        Raises:
            InvalidRequestError: it can never fit the model or the cache, or its prompt has a wrong id.
            OverloadedError: the queue is full.
            ValueError: its id is taken, or it was added before.
        """
        self.add_all((seq,))

    def add_all(self, sequences: SequenceOf[Sequence]) -> None:
        """Queue all completions of a request, or none of them; raises as `add`."""
        ids = {seq.seq_id for seq in sequences}
        for seq in sequences:
            refuse_unfit(seq, max_model_len=self.config.max_model_len, cache_tokens=self._cache_tokens)
            if seq.seq_id in self._sequences or len(ids) < len(sequences):
                raise ValueError(f"Sequence id {seq.seq_id} is taken; give every sequence its own.")
            if seq.status is not SequenceStatus.NEW:
                raise ValueError(f"Sequence {seq.seq_id} was added before; make a new one.")
        if len(self._waiting) + len(sequences) > self.config.max_waiting:
            raise OverloadedError(
                f"{len(self._waiting)} completions wait already and the limit is {self.config.max_waiting}; "
                "try again in a moment."
            )
        for seq in sequences:
            if seq.arrival is None:
                seq.arrival = self._arrivals
            self._arrivals = max(self._arrivals, seq.arrival + 1)
            seq.rank = admission_rank(seq.priority, seq.arrival, seq.seq_id)
            seq.chain = HashChain(seq.salt, self.kv.block_size) if self.kv.enable_prefix_caching else None
            seq.status = SequenceStatus.WAITING
            self._sequences[seq.seq_id] = seq
            insort(self._waiting, seq, key=_rank)

    def schedule(self) -> StepPlan:
        """Plan the next step. Changes leases and the queue, but computes and samples nothing.

        Raises:
            EngineError: a sequence that reached its last token was not finished.
        """
        draft = StepDraft(self._steps, self.config, self.kv.block_size)
        limit = self.max_sequence_tokens
        for seq in tuple(self._running):
            if seq.status is not SequenceStatus.RUNNING:
                continue
            if seq.num_tokens > limit:
                raise EngineError(
                    f"Sequence {seq.seq_id} has {seq.num_tokens} tokens, its limit is {limit}; finish it "
                    "when its last token is sampled."
                )
            lease = seq.held_lease()
            if seq.num_tokens <= lease.capacity or self._grow(seq, lease, draft):
                draft.add(seq)
        if self._waiting:
            self._admit(draft)
        self._open_step = self._steps
        self._steps += 1
        return draft.plan()

    def update(self, plan: StepPlan, sampled: Mapping[int, int]) -> None:
        """Record that a plan was executed.

        Sequences finished since `schedule` are skipped. Full blocks become shareable. The caller finishes the
        sequences that are done before the next `schedule`.

        Args:
            plan: the plan that `schedule` returned last.
            sampled: sequence id to the sampled token, for every live chunk with `sample` set.

        Raises:
            EngineError: the plan is not the last one, or was recorded already.
            ValueError: a sampled token is missing; nothing was recorded.
        """
        if plan.step != self._open_step:
            raise EngineError(
                f"The plan of step {plan.step} was recorded already or replaced by a later one."
            )
        sequences = self._sequences
        for chunk in plan.chunks:
            if chunk.sample and chunk.seq_id not in sampled and chunk.seq_id in sequences:
                raise ValueError(f"Sequence {chunk.seq_id} is to sample a token, but none is given.")
        self._open_step = None
        block_size = self.kv.block_size
        for chunk in plan.chunks:
            seq = sequences.get(chunk.seq_id)
            if seq is None or seq.lease is None:
                continue
            computed = chunk.start + len(chunk.token_ids)
            seq.num_computed = computed
            if chunk.scoring is not None:
                seq.num_scored = min(computed, seq.num_to_score)
            if seq.chain is not None and computed >= (seq.lease.published + 1) * block_size:
                seq.hash_to(computed)
                published = self.kv.publish(seq.lease, seq.chain, computed)
                self._in_flight.done(seq.seq_id, published)
            if chunk.sample:
                seq.output_ids.append(sampled[chunk.seq_id])
                seq.num_tokens += 1

    def finish(self, seq_id: int) -> None:
        """End a sequence in any state and free its blocks at once.

        An id that is not live is left alone: a sequence may end and be aborted in the same moment.
        """
        seq = self._sequences.pop(seq_id, None)
        if seq is None:
            return
        if seq.status is SequenceStatus.RUNNING:
            self._stop(seq)
        else:
            self._waiting.remove(seq)
        seq.status = SequenceStatus.FINISHED

    def check(self) -> None:
        """Raise AssertionError with a sentence unless queue, leases and blocks agree."""
        self.kv.check()
        self._in_flight.check()
        live = [*self._running, *self._waiting]
        assert {id(seq) for seq in live} == {id(seq) for seq in self._sequences.values()}, (
            "A sequence is lost."
        )
        assert len(live) == len(self._sequences), "A sequence is listed twice."
        assert len(self._running) <= self.config.max_num_seqs, "More sequences run than max_num_seqs allows."
        for queue in (self._running, self._waiting):
            assert queue == sorted(queue, key=_rank), "A queue is out of order."
        for seq in self._running:
            lease = seq.lease
            assert seq.status is SequenceStatus.RUNNING and lease is not None, (
                f"Sequence {seq.seq_id} runs unleased."
            )
            assert lease.owner == seq.seq_id, f"Sequence {seq.seq_id} holds no lease of its own."
            assert seq.num_computed < seq.num_tokens, f"Sequence {seq.seq_id} has nothing left to compute."
            assert seq.num_computed <= lease.capacity, f"Sequence {seq.seq_id} computed past its blocks."
        for seq in self._waiting:
            assert seq.status in _QUEUED and seq.lease is None, (
                f"Sequence {seq.seq_id} waits but holds a lease."
            )
            assert not self._in_flight.claims(seq.seq_id), f"Sequence {seq.seq_id} waits but claims blocks."
        leased = {lease.owner for lease in self.kv.leases()}
        assert leased == {seq.seq_id for seq in self._running}, "A lease has outlived its sequence's run."

    def _grow(self, seq: Sequence, lease: Lease, draft: StepDraft) -> bool:
        """Lease the block for a running sequence's next token; False when it must pause."""
        needed = self.kv.blocks_for(seq.num_tokens) - len(lease.block_ids)
        if needed > self.kv.num_free_blocks:
            after = {each.seq_id: each for each in self._running if each.rank > seq.rank}

            def enough(ids: tuple[int, ...]) -> bool:
                freed = self.kv.freed_by(after[each].held_lease() for each in ids)
                return needed <= self.kv.num_free_blocks + freed

            victims = choose_victims(map(_candidate, after.values()), enough)
            if not victims:
                draft.reasons.append(
                    f"Sequence {seq.seq_id} pauses: no block is free and none ranks after it."
                )
                return False
            self._put_out(victims, f"sequence {seq.seq_id} needs its next block", draft)
        return self.kv.extend(lease, seq.num_tokens)

    def _admit(self, draft: StepDraft) -> None:
        """Start waiting sequences in order of rank; the first that must wait holds up the rest."""
        position = 0
        held: dict[int, int] = {}
        while position < len(self._waiting):
            seq = self._waiting[position]
            seq.hash_to(seq.num_tokens)
            leader = self._leader(seq)
            if leader is not None:
                held[leader] = held.get(leader, 0) + 1
                position += 1
                continue
            delay = self._try_start(seq, draft)
            if delay is not None:
                others = len(self._waiting) - position - 1
                draft.reasons.append(f"Sequence {seq.seq_id} waits, and {others} behind it: {delay}.")
                break
        for leader, count in held.items():
            draft.reasons.append(f"Sequences wait for blocks that sequence {leader} is computing: {count}.")

    def _leader(self, seq: Sequence) -> int | None:
        """The running sequence whose computation of its next full block a waiting one should wait for."""
        if seq.chain is None or not len(self._in_flight):
            return None
        if seq.num_scored < seq.num_to_score:  # it needs its own rows
            return None
        if seq.held_by is not None and (leader := self._worth_waiting(seq, seq.held_by)) is not None:
            return leader
        seq.held_by = None
        matched = len(self.kv.match_chain(seq.chain, seq.num_tokens).block_ids)
        if matched >= (seq.num_tokens - 1) // self.kv.block_size:
            return None
        wanted = seq.chain.digests[matched]
        leader = self._worth_waiting(seq, wanted)
        if leader is not None:
            seq.held_by = wanted
        return leader

    def _worth_waiting(self, seq: Sequence, digest: bytes) -> int | None:
        """Who computes this block, unless its priority is less important than that of `seq`."""
        owner = self._in_flight.owner(digest)
        return None if owner is None or self._sequences[owner].priority > seq.priority else owner

    def _try_start(self, seq: Sequence, draft: StepDraft) -> str | None:
        """Start a waiting sequence, or say why it must wait."""
        budget = draft.budget_for(seq)
        if budget < 1:
            return "the step's token budget is spent"
        no_slot = len(self._running) >= self.config.max_num_seqs
        slots_taken = f"all {self.config.max_num_seqs} slots are taken"
        if no_slot and self._running[-1].priority <= seq.priority:
            return slots_taken
        match = self.kv.match_chain(seq.chain, seq.reusable + 1) if seq.chain is not None else Match()
        rest = seq.num_tokens - match.num_tokens
        if not self.config.enable_chunked_prefill and rest > budget:
            return f"its {rest} tokens must be computed at once and {budget} are left in this step"
        needed = self.kv.blocks_for(seq.num_tokens) - len(match.block_ids)
        beside = self.kv.free_blocks_beside(match)
        choice = admission(needed, beside, len(self._running))
        if no_slot or not choice.value:
            victims = self._victims_for(seq, match, needed, beside)
            if not victims:
                return slots_taken if no_slot else choice.reason
            self._put_out(
                victims, f"sequence {seq.seq_id} has a more important priority, {seq.priority}", draft
            )
        self._start(seq, match)
        draft.add(seq)
        return None

    def _victims_for(
        self, seq: Sequence, match: Match, needed: int, beside: int
    ) -> tuple[Choice[Candidate], ...]:
        """Whom a waiting sequence may put out to start; empty when that would not do."""
        if not self._running or self._running[-1].priority <= seq.priority:
            return ()
        lesser = {each.seq_id: each for each in self._running if each.priority > seq.priority}

        def enough(ids: tuple[int, ...]) -> bool:
            running = len(self._running) - len(ids)
            if running >= self.config.max_num_seqs:
                return False
            freed = self.kv.freed_by((lesser[each].held_lease() for each in ids), match.block_ids)
            return admission(needed, beside + freed, running).value

        return choose_victims(map(_candidate, lesser.values()), enough)

    def _start(self, seq: Sequence, match: Match) -> None:
        lease = self.kv.lease(seq.seq_id, match, seq.num_tokens)
        assert lease is not None, f"Sequence {seq.seq_id} was admitted without the blocks for it."
        self._waiting.remove(seq)
        if seq.status is SequenceStatus.WAITING:
            seq.cached_tokens = match.num_tokens
        seq.lease = lease
        seq.num_computed = match.num_tokens
        seq.held_by = None
        seq.status = SequenceStatus.RUNNING
        insort(self._running, seq, key=_rank)
        if seq.chain is not None:
            self._in_flight.claim(seq.seq_id, seq.chain.digests[lease.published :])

    def _put_out(self, victims: Iterable[Choice[Candidate]], cause: str, draft: StepDraft) -> None:
        for choice in victims:
            seq = self._sequences[choice.value.seq_id]
            self._stop(seq)
            seq.status = SequenceStatus.PREEMPTED
            seq.num_preemptions += 1
            insort(self._waiting, seq, key=_rank)
            draft.drop(seq)
            draft.reasons.append(f"Sequence {seq.seq_id} is preempted: {cause} ({choice.reason}).")

    def _stop(self, seq: Sequence) -> None:
        self.kv.release(seq.held_lease())
        self._running.remove(seq)
        self._in_flight.drop(seq.seq_id)
        seq.lease = None
        seq.num_computed = 0


def _candidate(seq: Sequence) -> Candidate:
    return Candidate(seq.seq_id, seq.priority, seq.rank[1], seq.num_computed)
