"""A step while it is being planned."""

from __future__ import annotations

from tenfold.core.plan import ScheduledChunk, StepPlan
from tenfold.scheduler.config import SchedulerConfig
from tenfold.scheduler.policies import Choice, chunk_size, prefill_room
from tenfold.scheduler.sequence import Sequence


class StepDraft:
    """Collects who computes in a step, then divides the token budget.

    Args:
        step: number of the step.
        config: the limits.
        block_size: tokens a KV block.
    """

    def __init__(self, step: int, config: SchedulerConfig, block_size: int) -> None:
        self.step = step
        self.config = config
        self.block_size = block_size
        self.preempted: list[int] = []
        self.reasons: list[str] = []
        self._decodes: list[Sequence] = []
        self._prefills: list[Sequence] = []

    def add(self, seq: Sequence) -> None:
        """Let a running sequence compute in this step; its lease must hold all its tokens."""
        if seq.num_tokens - seq.num_computed == 1:
            self._decodes.append(seq)
        else:
            self._prefills.append(seq)

    def drop(self, seq: Sequence) -> None:
        """Take out a sequence that was preempted."""
        self.preempted.append(seq.seq_id)
        self._decodes = [each for each in self._decodes if each is not seq]
        self._prefills = [each for each in self._prefills if each is not seq]

    def budget_for(self, seq: Sequence) -> int:
        """Tokens that a newcomer could compute in this step after the sequences that go before it."""
        limit = self.config.max_chunk_tokens if self.config.enable_chunked_prefill else None
        left = self._prefill_room().value
        for other in self._prefills:
            if other.rank < seq.rank:
                remaining = other.num_tokens - other.num_computed
                left -= remaining if limit is None else min(remaining, limit)
        return left

    def plan(self) -> StepPlan:
        """Divide the budget: one token for each decoding sequence, the rest to prompts in order of rank."""
        chunks = []
        for seq in self._decodes:
            start, lease = seq.num_computed, seq.held_lease()
            # A decoding sequence's lease grows a block at a time, so its blocks cover its tokens and no more.
            token_ids = (seq.output_ids[-1],) if seq.output_ids else seq.tokens(start, start + 1)
            chunks.append(ScheduledChunk(seq.seq_id, start, token_ids, lease.block_ids, True))
        if self._prefills:
            self._add_prefills(chunks)
        return StepPlan(self.step, tuple(chunks), tuple(self.preempted), tuple(self.reasons))

    def _prefill_room(self) -> Choice[int]:
        config = self.config
        beside = config.max_prefill_beside_decodes if config.enable_chunked_prefill else None
        return prefill_room(config.max_num_batched_tokens, len(self._decodes), beside)

    def _add_prefills(self, chunks: list[ScheduledChunk]) -> None:
        config = self.config
        room = self._prefill_room()
        left = room.value
        if left < config.max_num_batched_tokens - len(self._decodes):
            self.reasons.append(f"Prompts get {left} tokens: {room.reason}.")
        for seq in sorted(self._prefills, key=lambda each: each.rank):
            start = seq.num_computed
            remaining = seq.num_tokens - start
            choice = chunk_size(
                remaining, left, config.max_chunk_tokens, chunked=config.enable_chunked_prefill
            )
            size = choice.value
            if size < remaining:
                self.reasons.append(f"Sequence {seq.seq_id} is cut short: {choice.reason}.")
            if size:
                left -= size
                stop = start + size
                table = seq.held_lease().block_ids[: -(-stop // self.block_size)]
                token_ids, scoring = seq.tokens(start, stop), seq.scoring(start, stop)
                chunks.append(ScheduledChunk(seq.seq_id, start, token_ids, table, size == remaining, scoring))
