"""Compare Tenfold with llama.cpp on this machine, interleaved: A B A B, medians, spread.

    python bench/compare.py                              all rows, the default model
    python bench/compare.py --models FILE.gguf --rows pp512 --repeats 7
    python bench/compare.py --quick                      shorter rows, two repeats: does it work?

Each measurement is a process of its own with as many threads for one as for the other. The peer runs the same
file and, when that has at least 4.5 bits a weight, a Q4_0 of it; with flash attention off and on, of which
the better median counts. Tenfold's figures include scheduling and sampling, llama-bench's do not. Results go
to bench/results/DATE-MODEL.json; nothing is added to bench/LOG.md by itself.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # so that `python bench/compare.py` finds its neighbours
    sys.path.insert(0, str(ROOT))

from bench.entrant import Entrant, PeerError  # noqa: E402
from bench.llama_cpp import LlamaCpp, q4_0_of, wants_q4_0  # noqa: E402
from bench.results import facts_of_machine, model_facts, write_results  # noqa: E402
from bench.scenarios import MODELS, ROWS, Row, find_rows  # noqa: E402
from bench.tenfold_engine import TenfoldEngine  # noqa: E402
from tenfold.checkpoints.resolve import resolve  # noqa: E402
from tenfold.cli.console import print_json, print_table  # noqa: E402
from tenfold.core.errors import TenfoldError  # noqa: E402

BUSY_LOAD = 0.5


def say(sentence: str) -> None:
    """Progress goes to stderr, so that --json stays clean."""
    print(sentence, file=sys.stderr, flush=True)


def entrants_for(file: Path, facts: dict[str, Any], threads: int, *, ceilings: bool) -> list[Entrant]:
    """Tenfold first, then the peers it is set against."""
    entrants: list[Entrant] = [
        TenfoldEngine(file, threads, ceilings=ceilings),
        LlamaCpp(file, threads, "llama.cpp"),
    ]
    if wants_q4_0(facts["bits_per_weight"], set(facts["types"])):
        say(f"Requantizing {file.name} to Q4_0 for llama.cpp (once).")
        entrants.append(LlamaCpp(q4_0_of(file), threads, "llama.cpp Q4_0"))
    return entrants


def compare_row(row: Row, entrants: Sequence[Entrant], repeats: int) -> dict[str, Any]:
    """Measure a row `repeats` times, one entrant after the other in each round."""
    samples: dict[str, list[Any]] = {entrant.label: [] for entrant in entrants}
    for number in range(repeats):
        for entrant in entrants:
            sample = entrant.measure(row)
            samples[entrant.label].append(sample)
            best = max(sample.rates.values())
            say(f"  {row.name} {number + 1}/{repeats}: {entrant.label} {best:.1f} tokens/s")
    figures = [summarize(entrant.engine, entrant.label, samples[entrant.label]) for entrant in entrants]
    ours = figures[0]["median"]
    for figure in figures[1:]:
        figure["ratio"] = ours / figure["median"]
    return {
        "row": row.name,
        "what": row.what,
        "tokens": row.tokens,
        "batch": row.batch,
        "depth": row.depth,
        "entrants": figures,
        "ratio_to_best_peer": min(figure["ratio"] for figure in figures[1:]),
    }


def summarize(engine: str, label: str, samples: Sequence[Any]) -> dict[str, Any]:
    """An entrant's figures: those of its variant with the best median."""
    series = {variant: [sample.rates[variant] for sample in samples] for variant in samples[0].rates}
    variant = max(series, key=lambda name: median(series[name]))
    rates = series[variant]
    return {
        "engine": engine,
        "label": label,
        "variant": variant,
        "median": median(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "tokens_per_s": series,
        "details": [sample.details for sample in samples],
    }


def table_rows(results: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Cells of the printed table."""
    cells = []
    for result in results:
        for figure in result["entrants"]:
            shares = [share for each in figure["details"] if (share := each.get("share_of_ceiling"))]
            cells.append(
                [
                    result["row"],
                    " ".join(filter(None, (figure["label"], figure["variant"]))),
                    f"{figure['median']:.1f}",
                    f"{figure['lowest']:.1f}",
                    f"{figure['highest']:.1f}",
                    f"{figure['ratio']:.2f}" if "ratio" in figure else "",
                    f"{median(shares):.0%}" if shares else "",
                ]
            )
    return cells


def compare_model(name: str, rows: Sequence[Row], options: argparse.Namespace) -> dict[str, Any]:
    """Measure one model, write its results, print its table."""
    file = resolve(name)
    facts = model_facts(file)
    say(f"{file.name}: {facts['bits_per_weight']:.2f} bits a weight, {options.threads} threads")
    entrants = entrants_for(file, facts, options.threads, ceilings=not options.quick)
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        say(f"The machine is busy (load {load:.1f}): these figures tell little.")
    results = [compare_row(row, entrants, options.repeats) for row in rows]
    report = {
        **facts_of_machine(),
        "load_at_start": load,
        "model": facts,
        "threads": options.threads,
        "repeats": options.repeats,
        "quick": options.quick,
        "rows": results,
    }
    written = write_results(report, file.stem, options.results)
    if not options.json:
        columns = ["row", "engine", "tokens/s", "lowest", "highest", "ratio", "of ceiling"]
        print_table(
            f"{file.name}, {options.threads} threads", columns, table_rows(results), right=(2, 3, 4, 5, 6)
        )
    say(f"Written: {written}")
    return report


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Compare Tenfold with llama.cpp, interleaved.")
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="catalog names or GGUF files")
    parser.add_argument(
        "--rows", nargs="+", help=f"of {', '.join(row.name for row in ROWS)}; all if left out"
    )
    parser.add_argument("--repeats", type=int, help="measurements of each; 5, or 2 with --quick")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="rows an eighth as long, without ceilings")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="folder for results")
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of tables")
    options = parser.parse_args(arguments)
    options.repeats = options.repeats or (2 if options.quick else 5)
    if options.repeats < 1 or options.threads < 1:
        parser.error("--repeats and --threads must be at least 1.")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; 1 with a sentence on stderr when it cannot be made."""
    options = parse(arguments)
    try:
        rows = find_rows(options.rows, quick=options.quick)
        reports = [compare_model(name, rows, options) for name in options.models]
    except (PeerError, TenfoldError, ValueError) as problem:
        say(f"compare: {problem}")
        return 1
    if options.json:
        print_json(reports)
    return 0


if __name__ == "__main__":
    sys.exit(main())
