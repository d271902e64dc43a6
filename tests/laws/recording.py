"""A runner that remembers the logits of every sampled token, and engines in many shapes over one model file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from tenfold.config.engine import EngineSettings
from tenfold.core.plan import StepPlan
from tenfold.core.request import Request, RequestOutput
from tenfold.engine.core import EngineCore
from tenfold.engine.model import load_model
from tenfold.engine.runner import Runner, StepResult
from tenfold.sampling.batch import SamplingRow

# (completion index, how many tokens were drawn before) to a digest of the logits' bytes; (0, -1) to one of the prompt's
# log probabilities.
Trace = dict[tuple[int, int], bytes]


class RecordingRunner(Runner):
    """Runs each step twice: once for its logits' bytes, once to sample. The second run writes the same KV."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner.native)
        self.last: list[bytes] = []

    def execute(self, plan: StepPlan, rows: Sequence[SamplingRow]) -> StepResult:
        ends = np.cumsum([len(chunk.token_ids) for chunk in plan.chunks])
        wanted = [int(end) - 1 for end, chunk in zip(ends, plan.chunks, strict=True) if chunk.sample]
        logits = self.logits(plan, wanted)
        self.last = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in logits]
        return super().execute(plan, rows)


class Shape:
    """An engine of a given shape whose every completion is recorded: logits, tokens, text."""

    def __init__(self, path: Path, **settings: object) -> None:
        model = load_model(path, EngineSettings(**settings))  # type: ignore[arg-type]
        self.runner = RecordingRunner(model.runner)
        self.core = EngineCore(msgspec.structs.replace(model, runner=self.runner))
        self.preemptions = 0
        self.cached_tokens = 0

    def run(
        self, requests: Sequence[Request], *, stagger: int = 0, aborts: dict[int, str] | None = None
    ) -> dict[str, tuple[Trace, dict[int, tuple[str, tuple[int, ...]]]]]:
        """Run requests, `stagger` steps apart; `aborts` maps a step number to a request to abort before it."""
        traces: dict[str, Trace] = {request.request_id: {} for request in requests}
        texts: dict[str, dict[int, tuple[str, tuple[int, ...]]]] = {r.request_id: {} for r in requests}
        waiting = list(requests)
        step = 0
        before = self.core.stats().preemptions
        while waiting or self.core.has_work():
            while waiting and (stagger == 0 or step % stagger == 0):
                self.core.add(waiting.pop(0))
                if stagger:
                    break
            if aborts and step in aborts:
                self.core.abort(aborts[step])
            outputs = self.core.step()
            self._record(outputs, traces, texts)
            step += 1
        self.core.check()
        self.preemptions = self.core.stats().preemptions - before
        return {request_id: (traces[request_id], texts[request_id]) for request_id in traces}

    def _record(
        self,
        outputs: list[RequestOutput],
        traces: dict[str, Trace],
        texts: dict[str, dict[int, tuple[str, tuple[int, ...]]]],
    ) -> None:
        for output, digest in zip(outputs, self.runner.last if outputs else (), strict=True):
            traces[output.request_id][(output.index, output.completion_tokens - 1)] = digest
            if output.prompt_logprobs is not None:
                scores = msgspec.msgpack.encode(output.prompt_logprobs)
                traces[output.request_id][(0, -1)] = hashlib.blake2b(scores, digest_size=16).digest()
            text, tokens = texts[output.request_id].get(output.index, ("", ()))
            texts[output.request_id][output.index] = (text + output.text, tokens + output.token_ids)
            self.cached_tokens = max(self.cached_tokens, output.cached_tokens)
