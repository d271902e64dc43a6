"""`tenfold profile` from its settings to its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from tenfold.config.engine import EngineSettings
from tenfold.core.errors import TenfoldError
from tenfold.engine.model import Model, load_model, open_model
from tenfold.kernels.isa import choose_isa
from tenfold.lab.profile.cost import Pricer, Work
from tenfold.lab.profile.phase import PhaseRunner
from tenfold.lab.profile.report import ProfileReport
from tenfold.lab.profile.settings import ProfileSettings
from tenfold.lab.profile.tree import TreeBuilder
from tenfold.lab.random_requests import check_cache_fits
from tenfold.lab.roofline import Ceilings, best_of, measure_ceilings

Progress = Callable[[str, int, int], None]


def profile_model(
    path: Path, settings: ProfileSettings, progress: Progress | None = None, *, by_layer: bool = False
) -> ProfileReport:
    """Load a model and profile its steps.

    Args:
        path: GGUF file or Hugging Face folder.
        settings: which steps.
        progress: called with (what is being done, done, total).
        by_layer: keep every layer apart; otherwise those of one sort are summed.

    Raises:
        TenfoldError: the settings do not fit the model or the machine.
    """
    settings.check()
    tell = progress or (lambda label, done, total: None)
    model, settings = load_for(path, settings, tell)
    native = model.runner.native
    before = _ceilings(model, settings, tell)
    runner = PhaseRunner(model, settings)
    measured = []
    for number, phase in enumerate(settings.phases):
        tell(f"Profiling {phase}", number, len(settings.phases))
        measured.append(runner.run(phase))
    ceilings = best_of(before, _ceilings(model, settings, tell))
    phases = []
    for times in measured:
        pricer = Pricer(model.program, native.weight_sizes, native.weight_products, Work.of(times.steps))
        phases.append(TreeBuilder(model.program, pricer, times, ceilings, by_layer=by_layer).build())
    return ProfileReport(
        model=model.name,
        path=str(path),
        isa=native.isa,
        threads=native.threads,
        batch=settings.batch,
        depth=settings.depth,
        prompt_tokens=settings.prompt_tokens,
        max_num_batched_tokens=settings.budget,
        weight_bytes=native.weight_bytes,
        weight_formats=dict(Counter(native.weight_formats)),
        ceilings=ceilings,
        phases=phases,
    )


def load_for(path: Path, settings: ProfileSettings, progress: Progress) -> tuple[Model, ProfileSettings]:
    """Load with a cache that holds the depth beside two passes' tokens, so that the depth is never evicted.

    Returns the model, and the settings with no more decode steps than fit its context.
    """
    _, program = open_model(path)
    block, batch = settings.block_size, settings.batch
    longest = settings.prompt_tokens + 1 if "prefill" in settings.phases else 1
    if "decode" in settings.phases:
        # While the last prompts are computed, the first sequences decode already.
        start = block + -(-batch * (block + 1) // settings.budget) + 2
        room = program.context_length - settings.shared_depth - start
        most = min(settings.most_decode_steps, max(1, room))
        settings = msgspec.structs.replace(settings, most_decode_steps=most)
        longest = max(longest, start + (settings.steps or most))
    tokens = settings.shared_depth + longest
    if tokens > program.context_length:
        raise TenfoldError(
            f"Depth, prompt and steps need {tokens} tokens, more than the model's context of "
            f"{program.context_length}; lower --depth, --prompt-tokens or --steps."
        )
    blocks = settings.shared_depth // block + 2 * (-(-longest // block) + 1)
    kv_bytes = batch * (blocks + 1) * block * program.kv.bytes_per_token
    check_cache_fits(kv_bytes, "--batch, --depth or --prompt-tokens")
    engine = EngineSettings(
        threads=settings.threads,
        # Prefill alone is profiled as a server with default settings would do it.
        isa=settings.isa or (choose_isa()[0] if settings.phases == ("prefill",) else None),
        max_model_len=min(tokens + block, program.context_length),
        max_num_seqs=batch,
        max_num_batched_tokens=settings.budget,
        max_prefill_beside_decodes=settings.budget,
        block_size=block,
        kv_cache_memory_bytes=kv_bytes,
        max_waiting=batch,
    )
    model = load_model(path, engine, lambda done, total: progress("Loading the weights", done, total))
    return model, settings


def _ceilings(model: Model, settings: ProfileSettings, progress: Progress) -> Ceilings:
    progress("Measuring the machine's ceilings", 0, 0)
    native = model.runner.native
    return measure_ceilings(native.isa, native.threads, settings.ceiling_seconds, native.weight_bytes)
