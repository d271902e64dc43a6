"""The engine's heart: admit requests, plan a step, run it, hand out what it made. One thread, no HTTP.

Its clock only stamps outputs; it decides nothing.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable
from itertools import count

from tenfold.core.errors import InvalidRequestError
from tenfold.core.plan import StepPlan
from tenfold.core.request import Request, RequestOutput, TokenLogprobs
from tenfold.core.stats import EngineStats
from tenfold.engine.completion import Completion
from tenfold.engine.model import Model
from tenfold.engine.runner import StepResult
from tenfold.kv.manager import KVManager
from tenfold.sampling.batch import SamplingRow
from tenfold.scheduler.config import SchedulerConfig
from tenfold.scheduler.scheduler import Scheduler
from tenfold.scheduler.sequence import Sequence

_log = logging.getLogger(__name__)


class EngineCore:
    """Continuous batching over one model. Not thread-safe: one owner calls everything.

    Args:
        model: a loaded model.
        clock: stamps outputs with when their completions came and when they were first planned.
    """

    def __init__(self, model: Model, clock: Callable[[], float] = time.perf_counter) -> None:
        settings = model.settings
        self.model = model
        self.kv = KVManager(
            model.num_blocks, settings.block_size, enable_prefix_caching=settings.enable_prefix_caching
        )
        self.scheduler = Scheduler(
            SchedulerConfig(
                max_num_batched_tokens=settings.max_num_batched_tokens,
                max_num_seqs=settings.max_num_seqs,
                max_prefill_beside_decodes=settings.max_prefill_beside_decodes,
                max_model_len=model.max_model_len,
                # Until the next step all newcomers wait, also those that will run at once.
                max_waiting=settings.max_waiting + settings.max_num_seqs,
            ),
            self.kv,
        )
        self._completions: dict[int, Completion] = {}
        self._requests: dict[str, set[int]] = {}
        self._clock = clock
        self._unplanned: set[int] = set()
        self._seq_ids = count()
        self._steps = 0
        self._preemptions = 0
        self._prompt_tokens = 0
        self._generation_tokens = 0
        self._cache_queries = 0
        self._cache_hits = 0

    def check_request(self, request: Request) -> int:
        """Refuse at the door what can never run; return how many output tokens fit.

        Raises:
            InvalidRequestError: the prompt is empty, a parameter is out of range, or prompt and max_tokens exceed the
                model's context or the whole cache.
        """
        prompt, limit = len(request.prompt_token_ids), self.model.longest_sequence
        if prompt == 0:
            raise InvalidRequestError("The prompt has no tokens; give at least one.", param="prompt")
        vocab = self.model.program.vocab_size
        if min(request.prompt_token_ids) < 0 or max(request.prompt_token_ids) >= vocab:
            raise InvalidRequestError(
                f"The prompt names a token id outside the vocabulary of {vocab} tokens.", param="prompt"
            )
        request.sampling.check(vocab)
        room = limit - prompt
        if room < 1:
            raise InvalidRequestError(
                f"The prompt has {prompt} tokens; with at least one token of output the limit is {limit}. Shorten it.",
                param="prompt",
                code="context_length_exceeded",
            )
        wanted = request.sampling.max_tokens
        if wanted is not None and wanted > room:
            raise InvalidRequestError(
                f"The prompt's {prompt} tokens and max_tokens, {wanted}, exceed the limit of {limit} tokens; "
                f"ask for at most {room}.",
                param="max_tokens",
                code="context_length_exceeded",
            )
        if request.sampling.n > self.model.settings.max_num_seqs:
            raise InvalidRequestError(
                f"n is {request.sampling.n}; this server runs at most {self.model.settings.max_num_seqs} sequences.",
                param="n",
            )
        return room

    def add(self, request: Request) -> None:
        """Take a request in.

        Raises:
            InvalidRequestError: it can never run, or its structured output cannot be compiled.
            OverloadedError: the waiting queue is full.
        """
        if request.request_id in self._requests:
            raise InvalidRequestError(
                f"request id {request.request_id!r} is running already.", param="request_id"
            )
        room = self.check_request(request)
        structured = request.sampling.structured
        grammar = None if structured is None else self.model.grammars.get(structured)
        base = request.sampling.seed
        root = int.from_bytes(os.urandom(8), "little") if base is None else base & (2**64 - 1)
        sequences = [
            Sequence(
                seq_id=next(self._seq_ids),
                request_id=request.request_id,
                index=index,
                prompt_ids=request.prompt_token_ids,
                sampling=request.sampling,
                priority=request.priority,
                salt=request.cache_salt,
            )
            for index in range(request.sampling.n)
        ]
        completions = {
            sequence.seq_id: Completion(
                request,
                sequence,
                self.model.tokenizer,
                root if sequence.index == 0 else _child_seed(root, sequence.index),
                room,
                grammar,
            )
            for sequence in sequences
        }
        queued_at = self._clock()
        for completion in completions.values():
            completion.queued_at = queued_at
        # Last, as it is the only step that changes anything: what fails before leaves no trace.
        self.scheduler.add_all(sequences)
        self._completions.update(completions)
        self._unplanned.update(completions)
        self._requests[request.request_id] = {sequence.seq_id for sequence in sequences}
        self._prompt_tokens += len(request.prompt_token_ids)

    def abort(self, request_id: str) -> list[RequestOutput]:
        """Drop a request at once, in any state; blocks are free on return. Unknown ids are no error."""
        outputs = []
        for seq_id in sorted(self._requests.pop(request_id, set())):
            completion = self._completions[seq_id]
            outputs.append(completion.end("abort"))
            self._drop(seq_id)
        return outputs

    def step(self) -> list[RequestOutput]:
        """Plan and run one step; return what it added, in the plan's order. Empty when there is nothing to do."""
        plan = self._plan()
        if not plan.chunks:
            return []
        sampling = [self._completions[chunk.seq_id] for chunk in plan.chunks if chunk.sample]
        return self._account(plan, sampling, self._execute(plan, sampling))

    def has_work(self) -> bool:
        """Whether a step would have anything to do."""
        return self.scheduler.has_work()

    def fail_all(self, message: str) -> list[RequestOutput]:
        """End every request with an error; the engine is clean afterwards."""
        outputs = [completion.end("error", error=message) for completion in self._completions.values()]
        for seq_id in list(self._completions):
            self._drop(seq_id)
        self._requests.clear()
        return outputs

    def stats(self) -> EngineStats:
        """Counters and gauges as of now."""
        return EngineStats(
            num_running=self.scheduler.num_running,
            num_waiting=self.scheduler.num_waiting,
            kv_usage=self.kv.usage,
            prefix_queries_tokens=self._cache_queries,
            prefix_hit_tokens=self._cache_hits,
            preemptions=self._preemptions,
            steps=self._steps,
            prompt_tokens=self._prompt_tokens,
            generation_tokens=self._generation_tokens,
            kv_blocks=self.model.num_blocks,
            kv_block_size=self.model.settings.block_size,
        )

    def check(self) -> None:
        """Assert that scheduler, cache and requests agree; when idle, nothing may be leased."""
        self.scheduler.check()
        owned = {seq_id for seqs in self._requests.values() for seq_id in seqs}
        assert owned == set(self._completions), "requests and completions disagree."

    def _plan(self) -> StepPlan:
        plan = self.scheduler.schedule()
        self._preemptions += len(plan.preempted)
        for reason in plan.reasons:
            _log.debug("step %d: %s", plan.step, reason)
        if self._unplanned:
            now = self._clock()
            for chunk in plan.chunks:
                if chunk.seq_id in self._unplanned:
                    self._unplanned.discard(chunk.seq_id)
                    self._completions[chunk.seq_id].scheduled_at = now
        return plan

    def _execute(self, plan: StepPlan, sampling: list[Completion]) -> StepResult:
        return self.model.runner.execute(plan, [_sampling_row(completion) for completion in sampling])

    def _account(self, plan: StepPlan, sampling: list[Completion], result: StepResult) -> list[RequestOutput]:
        """Tell the scheduler what was computed, and turn the tokens into outputs."""
        self._steps += 1
        results = {
            completion.sequence.seq_id: token
            for completion, token in zip(sampling, result.sampled, strict=True)
        }
        if result.scored:
            scoring = (chunk.seq_id for chunk in plan.chunks if chunk.scoring is not None)
            for seq_id, entries in zip(scoring, result.scored, strict=True):
                self._completions[seq_id].prompt_logprobs += entries
        self.scheduler.update(plan, {seq_id: token.token_id for seq_id, token in results.items()})
        return [self._deliver(completion, results[completion.sequence.seq_id]) for completion in sampling]

    def _deliver(self, completion: Completion, token: TokenLogprobs) -> RequestOutput:
        self._generation_tokens += 1
        if completion.count == 1:
            self._cache_queries += len(completion.request.prompt_token_ids)
            self._cache_hits += completion.sequence.cached_tokens
        output = completion.take(token)
        if output.finish_reason is not None:
            seq_id = completion.sequence.seq_id
            self._drop(seq_id)
            siblings = self._requests[completion.request.request_id]
            siblings.discard(seq_id)
            if not siblings:
                del self._requests[completion.request.request_id]
        return output

    def _drop(self, seq_id: int) -> None:
        self.scheduler.finish(seq_id)
        self._completions.pop(seq_id, None)
        self._unplanned.discard(seq_id)


def _sampling_row(completion: Completion) -> SamplingRow:
    params, sequence = completion.request.sampling, completion.sequence
    return SamplingRow(
        params=params,
        seed=completion.seed,
        draw=len(sequence.output_ids),
        prompt_ids=completion.penalized_ids,
        output_ids=sequence.output_ids,
        banned_ids=completion.banned(),
        mask=completion.mask(),
    )


def _child_seed(root: int, index: int) -> int:
    digest = hashlib.blake2b(root.to_bytes(8, "little") + index.to_bytes(4, "little"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")
