"""Measure the engine itself: prefill and decode through EngineCore, without HTTP."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from tenfold.config.engine import EngineSettings
from tenfold.core.errors import TenfoldError
from tenfold.core.request import RequestOutput
from tenfold.engine.core import EngineCore
from tenfold.engine.model import Model, load_model, open_model
from tenfold.kernels.isa import choose_isa
from tenfold.lab.engine_report import EngineReport, Repeat, Stretch, summarize_repeats
from tenfold.lab.random_requests import RandomRequests, check_cache_fits
from tenfold.lab.roofline import Ceilings, Roofline, best_of, measure_ceilings
from tenfold.lab.timed_runner import TimedRunner

_DEFAULT_BUDGET = EngineSettings().max_num_batched_tokens
Progress = Callable[[str, int, int], None]


class EngineBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure.

    Args:
        prompt_len: tokens a prompt, beyond `depth`.
        output_len: tokens a sequence generates in the decode pass; 1 leaves that pass out.
        batch: sequences at once.
        depth: tokens that each sequence has in its KV beforehand, rounded to full blocks.
        threads: compute threads; None takes all CPUs.
        isa: kernels; None takes what an engine for `batch` sequences takes, but for prefill alone the CPU's best.
        repeat: runs of both passes.
        max_num_batched_tokens: tokens a step; None takes the engine's default, or the batch if that is more.
        block_size: tokens a KV block.
        seed: of the random prompts.
        ceiling_seconds: time for each measurement of a ceiling; 0 measures none.
    """

    prompt_len: int = 512
    output_len: int = 128
    batch: int = 1
    depth: int = 0
    threads: int | None = None
    isa: str | None = None
    repeat: int = 3
    max_num_batched_tokens: int | None = None
    block_size: int = 16
    seed: int = 0
    ceiling_seconds: float = 0.2

    def check(self) -> None:
        """Raise TenfoldError naming the first value that cannot be measured."""
        least = {"prompt_len": 1, "output_len": 1, "batch": 1, "depth": 0, "repeat": 1, "ceiling_seconds": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise TenfoldError(f"{name} is {getattr(self, name)}; it must be at least {low}.")

    @property
    def rounded_depth(self) -> int:
        """The depth in full blocks: only full blocks are shared."""
        return (self.depth + self.block_size // 2) // self.block_size * self.block_size


def bench_engine(path: Path, settings: EngineBenchSettings, progress: Progress | None = None) -> EngineReport:
    """Load a model and measure it.

    Args:
        path: GGUF file or Hugging Face folder.
        settings: what to measure.
        progress: called with (what is being done, done, total).

    Raises:
        TenfoldError: the settings do not fit the model or the machine.
    """
    settings.check()
    report = progress or (lambda label, done, total: None)
    model = _load(path, settings, report)
    native = model.runner.native
    before = _ceilings(model, settings, report)
    stretches = EngineBench(model, settings).run(report)
    after = _ceilings(model, settings, report)
    ceilings = None if before is None or after is None else best_of(before, after)
    roofline = Roofline(model.program, native.weight_bytes, native.weight_formats, native.weight_products)
    repeats = [
        Repeat(
            prefill=prefill.price(roofline, ceilings),
            decode=None if decode is None else decode.price(roofline, ceilings),
        )
        for prefill, decode in stretches
    ]
    return EngineReport(
        model=model.name,
        path=str(path),
        isa=native.isa,
        threads=native.threads,
        prompt_len=settings.prompt_len,
        output_len=settings.output_len,
        batch=settings.batch,
        depth=settings.rounded_depth,
        repeat=settings.repeat,
        max_num_batched_tokens=model.settings.max_num_batched_tokens,
        block_size=settings.block_size,
        seed=settings.seed,
        weight_bytes=native.weight_bytes,
        kv_bytes=native.kv_bytes,
        weight_formats=dict(Counter(native.weight_formats)),
        ceilings=ceilings,
        **summarize_repeats(repeats),
    )


class EngineBench:
    """Runs the passes on a loaded model.

    Args:
        model: loaded with room for the batch.
        settings: what to measure.
    """

    def __init__(self, model: Model, settings: EngineBenchSettings) -> None:
        self._settings = settings
        self._runner = TimedRunner(model.runner)
        self._engine = EngineCore(msgspec.structs.replace(model, runner=self._runner))
        self._requests = RandomRequests(self._engine, settings.seed, "bench")

    def run(self, progress: Progress) -> list[tuple[Stretch, Stretch | None]]:
        """Warm up, fill the caches to the depth, then measure each repeat's (prefill, decode)."""
        settings = self._settings
        passes = settings.batch + settings.repeat * 2
        progress("Warming up", 0, passes)
        self._warm_up()
        prefixes = []
        for number in range(settings.batch):
            prefixes.append(self._fill(settings.rounded_depth))
            progress("Filling the caches to the depth", number + 1, passes)
        results = []
        for number in range(settings.repeat):
            done = settings.batch + number * 2
            progress(f"Prefill {number + 1} of {settings.repeat}", done, passes)
            prompts = [prefix + self._requests.tokens(settings.prompt_len) for prefix in prefixes]
            prefill = self._prefill(prompts)
            progress(f"Decode {number + 1} of {settings.repeat}", done + 1, passes)
            decode = self._decode(prompts) if settings.output_len > 1 else None
            results.append((prefill, decode))
        progress("Done", passes, passes)
        self._engine.check()
        return results

    def _warm_up(self) -> None:
        """Touch every weight and start the thread pool; what it computes is not used again."""
        length = min(self._settings.prompt_len, self._engine.model.settings.max_num_batched_tokens)
        self._requests.add(self._requests.tokens(length), min(2, self._settings.output_len))
        self._requests.finish()

    def _fill(self, depth: int) -> tuple[int, ...]:
        """Compute `depth` new random tokens; a prompt that starts with them finds them in the cache."""
        prefix = self._requests.tokens(depth)
        if depth:
            self._requests.add(prefix, 1)
            self._requests.finish()
        return prefix

    def _prefill(self, prompts: list[tuple[int, ...]]) -> Stretch:
        """All prompts at once, one output token each. Only the depth is in the cache."""
        for prompt in prompts:
            self._requests.add(prompt, 1)
        self._runner.take()
        latencies, outputs = [], []
        begin = time.perf_counter()
        while self._engine.has_work():
            made = self._engine.step()
            now = time.perf_counter()
            latencies += [now - begin] * len(made)
            outputs += made
        seconds = time.perf_counter() - begin
        self._check_depth(outputs)
        tokens = self._settings.prompt_len * len(prompts)
        return Stretch(seconds=seconds, tokens=tokens, steps=self._runner.take(), latencies=latencies)

    def _decode(self, prompts: list[tuple[int, ...]]) -> Stretch:
        """From the moment when all sequences have their first token, until each has output_len or one ends.

        The prompts are those of the prefill pass and mostly cached, so that this comes quickly to the point.
        """
        waiting = {self._requests.add(prompt, None) for prompt in prompts}
        started = list(waiting)
        ended = False
        while waiting:
            for output in self._engine.step():
                waiting.discard(output.request_id)
                ended = ended or output.finish_reason is not None
        self._runner.take()
        latencies: list[float] = []
        before = time.perf_counter()
        while not ended and len(latencies) < self._settings.output_len - 1:
            outputs = self._engine.step()
            now = time.perf_counter()
            latencies.append(now - before)
            before = now
            ended = any(output.finish_reason is not None for output in outputs)
            if len(outputs) != len(prompts):
                raise TenfoldError(
                    f"A decode step returned {len(outputs)} tokens for {len(prompts)} sequences: one was "
                    "put out. The cache is too small; lower --batch or --depth."
                )
        steps = self._runner.take()
        for request_id in started:
            self._engine.abort(request_id)
        if not latencies:
            raise TenfoldError(
                "The first sequence reached the model's context before the last had started, so decoding "
                "could not be measured; lower --batch, --depth or --prompt-len."
            )
        tokens = len(latencies) * len(prompts)
        return Stretch(seconds=sum(latencies), tokens=tokens, steps=steps, latencies=latencies)

    def _check_depth(self, outputs: list[RequestOutput]) -> None:
        """What was computed must be what the report says."""
        depth = self._settings.rounded_depth
        wrong = {output.cached_tokens for output in outputs} - {depth}
        if wrong:
            raise TenfoldError(
                f"A prompt found {wrong.pop()} tokens in the cache where {depth} were meant; "
                "lower --batch or --depth."
            )


def _load(path: Path, settings: EngineBenchSettings, progress: Progress) -> Model:
    """Load with a cache for two repeats' tokens, so that making room never evicts the depth's blocks."""
    budget = settings.max_num_batched_tokens or max(_DEFAULT_BUDGET, settings.batch)
    block, batch = settings.block_size, settings.batch
    _, program = open_model(path)
    tokens = settings.rounded_depth + settings.prompt_len + settings.output_len
    if tokens > program.context_length:
        raise TenfoldError(
            f"Depth, prompt and output have {tokens} tokens, more than the model's context of "
            f"{program.context_length}; lower one."
        )
    # While the last prompts are computed, the first sequences decode already.
    slack = 2 * -(-batch * block // budget) + 4
    blocks_each = settings.rounded_depth // block + 2 * (
        -(-(tokens - settings.rounded_depth + slack) // block) + 1
    )
    kv_bytes = batch * (blocks_each + 1) * block * program.kv.bytes_per_token
    check_cache_fits(kv_bytes, "--batch, --depth or --prompt-len")
    engine = EngineSettings(
        threads=settings.threads,
        # Prefill alone is measured as a server with default settings would do it.
        isa=settings.isa or (choose_isa()[0] if settings.output_len == 1 else None),
        max_model_len=min(tokens + slack, program.context_length),
        max_num_seqs=batch,
        max_num_batched_tokens=budget,
        max_prefill_beside_decodes=budget,
        block_size=block,
        kv_cache_memory_bytes=kv_bytes,
        max_waiting=max(batch, 1),
    )
    return load_model(path, engine, lambda done, total: progress("Loading the weights", done, total))


def _ceilings(model: Model, settings: EngineBenchSettings, progress: Progress) -> Ceilings | None:
    if not settings.ceiling_seconds:
        return None
    progress("Measuring the machine's ceilings", 0, 0)
    native = model.runner.native
    return measure_ceilings(native.isa, native.threads, settings.ceiling_seconds, native.weight_bytes)
