"""A sequence: one completion of a request, as the scheduler sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tenfold.core.plan import Scoring
from tenfold.core.sampling_params import SamplingParams
from tenfold.kv.hashing import HashChain
from tenfold.kv.lease import Lease


class SequenceStatus(Enum):
    """Where a sequence stands."""

    NEW = "new"
    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"


@dataclass(eq=False, kw_only=True, slots=True)
class Sequence:
    """One completion of a request. The scheduler alone changes it after `add`.

    Its tokens are prompt_ids, then output_ids; the KV of the first num_computed of them is in the cache.

    Args:
        seq_id: unique among the scheduler's live sequences.
        request_id: the request.
        index: which of the request's n completions.
        prompt_ids: the prompt.
        sampling: the request's sampling parameters; the scheduler reads only max_tokens and prompt_logprobs.
        priority: lower runs first.
        salt: prefixes are shared only between sequences with equal salts.
        arrival: order among equal priorities; None lets the scheduler number it.
        output_ids: tokens sampled so far.
        num_computed: tokens whose KV is in the lease's blocks.
        num_scored: of the first num_to_score rows, those that were scored; preemption loses none.
        lease: the KV blocks, while running.
        status: where the sequence stands.
        cached_tokens: prompt tokens found in the prefix cache at first admission.
        num_preemptions: how often it lost its blocks.
        chain: digests of its full blocks, as far as they were needed.
        held_by: digest of the block that a running sequence computes and this one waits for.
        prompt_len: tokens in the prompt.
        num_to_score: rows of the prompt to score. Only one of a request's completions does it for all.
        num_tokens: tokens in prompt and output.
        rank: (priority, arrival, seq_id); lower goes first.
    """

    seq_id: int
    request_id: str
    prompt_ids: tuple[int, ...]
    sampling: SamplingParams
    index: int = 0
    priority: int = 0
    salt: str = ""
    arrival: int | None = None
    output_ids: list[int] = field(default_factory=list)
    num_computed: int = 0
    num_scored: int = 0
    lease: Lease | None = None
    status: SequenceStatus = SequenceStatus.NEW
    cached_tokens: int = 0
    num_preemptions: int = 0
    chain: HashChain | None = None
    held_by: bytes | None = None
    prompt_len: int = field(init=False)
    num_to_score: int = field(init=False)
    num_tokens: int = field(init=False)
    rank: tuple[int, int, int] = field(init=False, default=(0, 0, 0))

    def __post_init__(self) -> None:
        self.prompt_ids = tuple(self.prompt_ids)
        self.prompt_len = len(self.prompt_ids)
        self.num_tokens = self.prompt_len + len(self.output_ids)
        scores = self.sampling.prompt_logprobs is not None and self.index == 0
        self.num_to_score = self.prompt_len - 1 if scores else 0

    @property
    def reusable(self) -> int:
        """Tokens that need not be computed if their KV is cached: what is still to be scored needs its row."""
        return self.num_scored if self.num_scored < self.num_to_score else self.num_tokens - 1

    def scoring(self, start: int, stop: int) -> Scoring | None:
        """What is to be scored of the rows at positions start to stop - 1."""
        first, end = max(start, self.num_scored), min(stop, self.num_to_score)
        if first >= end:
            return None
        most = self.sampling.prompt_logprobs
        assert most is not None, f"Sequence {self.seq_id} scores rows that nobody asked for."
        return Scoring(first - start, self.prompt_ids[first + 1 : end + 1], most)

    def held_lease(self) -> Lease:
        """The lease of a running sequence."""
        assert self.lease is not None, f"Sequence {self.seq_id} runs without a lease."
        return self.lease

    def tokens(self, start: int, stop: int) -> tuple[int, ...]:
        """Tokens at positions start to stop - 1."""
        prompt_len = self.prompt_len
        if stop <= prompt_len:
            return self.prompt_ids[start:stop]
        if start >= prompt_len:
            return tuple(self.output_ids[start - prompt_len : stop - prompt_len])
        return self.prompt_ids[start:] + tuple(self.output_ids[: stop - prompt_len])

    def hash_to(self, num_tokens: int) -> None:
        """Grow the chain over the full blocks among the first `num_tokens` tokens."""
        chain = self.chain
        if chain is not None and num_tokens - chain.num_tokens >= chain.block_size:
            chain.extend(self.tokens(chain.num_tokens, num_tokens))
