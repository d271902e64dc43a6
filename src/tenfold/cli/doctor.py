"""`tenfold doctor`: what this machine can do."""

from __future__ import annotations

import typer

from tenfold.cli.options import JsonOption, ThreadsOption


def doctor(
    threads: ThreadsOption = None,
    seconds: float = typer.Option(0.3, metavar="X", min=0.05, help="Time for each measurement."),
    json: JsonOption = False,
) -> None:
    """Show what this machine can do at best.

    Prints the CPU's kernels, the threads, and measured ceilings: dot products of int8 and of bf16, memory reads.
    """
    import os

    from tenfold import __version__, _native
    from tenfold.cli.console import print_json, print_table
    from tenfold.kernels.isa import choose_isa

    isa, why = choose_isa()
    few, why_few = choose_isa(max_num_seqs=1)
    count = threads or len(os.sched_getaffinity(0))
    ceilings = _native.measure_ceilings(isa, count, seconds)
    report = {
        "version": __version__,
        "isa": isa,
        "isa_why": why,
        "isas_supported": _native.supported_isas(),
        "threads": count,
        **{name: round(value, 1) for name, value in ceilings.items()},
    }
    if json:
        print_json(report)
        return
    rows = [
        ["kernels", f"{isa} ({why}); this CPU can run {', '.join(_native.supported_isas())}"],
        *([["for few sequences", f"{few} ({why_few})"]] if few != isa else []),
        ["threads", str(count)],
        ["int8 dot products", f"{ceilings['int8_gops']:.0f} GOPS"],
        ["bf16 dot products", f"{ceilings['bf16_gflops']:.0f} GFLOPS"],
        ["float32 multiply-add", f"{ceilings['fp32_gflops']:.0f} GFLOPS"],
        ["memory read (1 GiB)", f"{ceilings['memory_read_gbs']:.1f} GB/s"],
    ]
    print_table(f"tenfold {__version__}", ["", ""], rows)
