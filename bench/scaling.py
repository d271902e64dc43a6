"""What a token costs against context (0 to 32k) and batch (1 to 64): JSON and a plot in bench/results.

    python bench/scaling.py --model FILE.gguf
    python bench/scaling.py --quick --depths 0 256 --batches 1 8

A point is the median of three in one run of `tenfold bench engine`: the engine with scheduling and sampling, and
the least time by the roofline. Depths beyond the model's context are left out, and said so.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.entrant import PeerError  # noqa: E402
from bench.plot import draw_scaling  # noqa: E402
from bench.results import FORMAT, facts_of_machine, model_facts, write_results  # noqa: E402
from bench.scenarios import MODELS, Row  # noqa: E402
from bench.tenfold_engine import TenfoldEngine  # noqa: E402
from tenfold.checkpoints.resolve import resolve  # noqa: E402
from tenfold.cli.console import print_json, print_table  # noqa: E402
from tenfold.core.errors import TenfoldError  # noqa: E402
from tenfold.engine.model import open_model  # noqa: E402

DEPTHS = (0, 512, 1024, 2048, 4096, 8192, 16384, 32768)
BATCHES = (1, 2, 4, 8, 16, 32, 64)
PROMPT, OUTPUT = 512, 33
REPEATS = 3
LIMIT_SECONDS = 1800.0


def say(sentence: str) -> None:
    """Progress goes to stderr, so that --json stays clean."""
    print(sentence, file=sys.stderr, flush=True)


def fitting(depths: Sequence[int], context: int) -> list[int]:
    """The depths that a model's context holds, the last one cut to what it holds at most.

    Prefill and decode are measured behind the depth, so it stops short of the context by their tokens.
    """
    most = (context - PROMPT - OUTPUT) // 16 * 16
    kept = [depth for depth in depths if depth <= most]
    return kept if len(kept) == len(depths) or most in kept else [*kept, most]


def point(report: dict[str, Any], place: dict[str, int]) -> dict[str, Any]:
    """Milliseconds a token of a run, measured and least, at a place of the plot."""
    found: dict[str, Any] = dict(place)
    for name in ("decode", "prefill"):
        cost = 1000 / report[f"{name}_tokens_per_s"]
        share = report[f"{name}_share_of_ceiling"]
        found |= {f"{name}_ms": cost, f"{name}_least_ms": None if share is None else cost * share}
    return found


def scale(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one model and write its results."""
    file = resolve(name)
    context = open_model(file)[1].context_length
    depths = fitting(options.depths, context)
    if depths != list(options.depths):
        say(f"{file.name} has a context of {context} tokens: depths end at {depths[-1]}.")
    engine = TenfoldEngine(file, options.threads, ceilings=not options.quick)

    def run(row: Row, prompt: int) -> dict[str, Any]:
        return engine.report(row, prompt, OUTPUT, repeat=1 if options.quick else REPEATS, limit=LIMIT_SECONDS)

    points = []
    for depth in depths:
        found = run(Row("depth", "decode", OUTPUT, depth=depth), PROMPT)
        points.append(point(found, {"depth": found["depth"]}))
        say(f"  depth {depth}: {points[-1]['decode_ms']:.2f} ms a token")
    batches = []
    for batch in options.batches:
        found = run(Row("batch", "decode", OUTPUT, batch=batch), 1)
        batches.append(point(found, {"batch": batch}))
        say(f"  batch {batch}: {batches[-1]['decode_ms']:.2f} ms a token")
    report = {
        "format": FORMAT,
        **facts_of_machine(),
        "load_at_start": os.getloadavg()[0],
        "model": model_facts(file),
        "threads": options.threads,
        "quick": options.quick,
        "complete": False,  # not rows of the comparison: the README takes no numbers from it
        "context": points,
        "batch": batches,
    }
    written = write_results(report, f"scaling-{file.stem}", options.results)
    written.with_suffix(".svg").write_text(draw_scaling(report), encoding="utf-8")
    say(f"Written: {written} and {written.with_suffix('.svg').name}")
    return report


def print_report(report: dict[str, Any]) -> None:
    """Two tables, for people."""
    for axis, names in (("context", ("decode", "prefill")), ("batch", ("decode",))):
        keys = [f"{name}_{kind}" for name in names for kind in ("ms", "least_ms")]
        columns = ["depth" if axis == "context" else "batch", *(key.replace("_", " ") for key in keys)]
        rows = [
            [
                str(next(iter(each.values()))),
                *("–" if each[key] is None else f"{each[key]:.3f}" for key in keys),
            ]
            for each in report[axis]
        ]
        title = f"{report['model']['file']}: ms a token against {axis}"
        print_table(title, columns, rows, right=tuple(range(len(columns))))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 with a sentence on stderr when it cannot be done."""
    parser = argparse.ArgumentParser(description="What a token costs against context and batch.")
    parser.add_argument(
        "--model", action="append", metavar="MODEL", help=f"may be repeated; if left out: {', '.join(MODELS)}"
    )
    parser.add_argument("--depths", type=int, nargs="*", default=list(DEPTHS))
    parser.add_argument("--batches", type=int, nargs="*", default=list(BATCHES))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="each point once, without the roofline")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="folder for results")
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of tables")
    options = parser.parse_args(arguments)
    try:
        reports = [scale(name, options) for name in options.model or MODELS]
    except (PeerError, TenfoldError) as problem:
        say(f"scaling: {problem}")
        return 1
    if options.json:
        print_json(reports)
    else:
        for report in reports:
            print_report(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
