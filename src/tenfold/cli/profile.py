"""`tenfold profile`: where the time of a step goes, op by op."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenfold.cli.options import JsonOption, ModelArgument, ThreadsOption


def profile(
    model: ModelArgument = None,
    phase: str = typer.Option("both", "--phase", metavar="NAME", help="prefill, decode or both."),
    prompt_tokens: int = typer.Option(
        512, "--prompt-tokens", "-p", metavar="N", min=1, help="Prefill: tokens of each prompt."
    ),
    batch: int = typer.Option(1, "--batch", "-b", metavar="N", min=1, help="Sequences at once."),
    depth: int = typer.Option(
        0, "--depth", "-d", metavar="N", min=0, help="Tokens each sequence has in its KV beforehand."
    ),
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps", metavar="N", min=1, help="Steps to time a phase.", show_default="2 seconds of them"
        ),
    ] = None,
    layers: bool = typer.Option(
        False, "--layers", help="Every layer apart; else layers of one sort are summed."
    ),
    max_num_batched_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tokens a step.", show_default="512, or the batch")
    ] = None,
    threads: ThreadsOption = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the picture there.", dir_okay=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show where the time of MODEL's engine steps goes.

    Runs real steps of random tokens: prefill, and decoding of BATCH sequences from DEPTH on. Each stage of the kernels
    is timed, each op within a stage of row ops, and what the engine does around them: schedule, inputs (arrays for
    the kernels), call, prepare (RoPE tables), sampling, outputs (detokenizing), rest. The op quantize turns rows into
    what linears multiply with: int8, or bfloat16 where weights are floats or the kernels AMX.

    MB are the bytes a step must move: weights as packed, KV, activations. GB/s and GOPS are those bytes and operations
    by the time. The ceiling is the slowest of: weights and KV at the measured memory rate, operations at the measured
    int8, bf16 or fp32 rate; 100 % cannot be beaten, except where weights stay in the CPU's caches.

    A kernel far below its ceiling with a large share of the step is the one to work on. Timing a stage costs about
    0.1 microseconds; the plain step time, without it, is shown beside.

    \b
    Examples:
      tenfold profile
      tenfold profile model.gguf --phase decode --batch 16 --depth 2048
      tenfold profile --phase prefill --prompt-tokens 2048 --svg prefill.svg
      tenfold profile --layers --json > profile.json
    """
    from tenfold.cli.console import print_json
    from tenfold.cli.loading import resolve_model, shown_name, stage_progress
    from tenfold.cli.profile_tables import print_profile
    from tenfold.core.errors import TenfoldError
    from tenfold.lab.profile.picture import draw
    from tenfold.lab.profile.run import profile_model
    from tenfold.lab.profile.settings import PHASES, ProfileSettings

    settings = ProfileSettings(
        phases=PHASES if phase == "both" else (phase,),
        prompt_tokens=prompt_tokens,
        batch=batch,
        depth=depth,
        steps=steps,
        max_num_batched_tokens=max_num_batched_tokens,
        threads=threads,
    )
    settings.check()
    path = resolve_model(model)
    shown = shown_name(model, path)
    with stage_progress() as progress:
        report = profile_model(path, settings, progress, by_layer=layers)
    if svg is not None:
        try:
            svg.write_text(draw(report, shown), encoding="utf-8")
        except OSError as problem:
            raise TenfoldError(f"The picture {svg} cannot be written: {problem.strerror}.") from None
    if json:
        print_json(report)
    else:
        print_profile(report, shown)
        if svg is not None:
            typer.echo(f"Picture: {svg}")
