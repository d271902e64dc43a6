"""Compare Tenfold with its peers on this machine, interleaved: A B A B, medians, spread.

    python bench/compare.py                              all rows, the default models
    python bench/compare.py --model FILE.gguf --only pp512 tg-b8 --repeats 7
    python bench/compare.py --quick                      shorter rows, two repeats: does it work?

Peers are llama.cpp (the same file and, when that has at least 4.5 bits a weight, a Q4_0 of it; flash attention off
and on), vLLM and transformers (the file's weights in bfloat16). The best of a peer's alternatives counts. All get
the same threads; only one works at a time. Tenfold's figures include scheduling and sampling, llama-bench's do not.
Results go to bench/results/DATE-MODEL.json with a plot beside; nothing is added to bench/LOG.md by itself.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # so that `python bench/compare.py` finds its neighbours
    sys.path.insert(0, str(ROOT))

from bench.checks import checks_of  # noqa: E402
from bench.entrant import PeerError  # noqa: E402
from bench.measure import figure, measure_row  # noqa: E402
from bench.peers import PEER_NAMES, Roster, Setting, make_roster  # noqa: E402
from bench.plot import draw  # noqa: E402
from bench.results import FORMAT, facts_of_machine, model_facts, write_results  # noqa: E402
from bench.scenarios import MODELS, ROWS, Row, find_rows, targets_of  # noqa: E402
from bench.screen import Screen  # noqa: E402
from bench.table import COLUMNS, cells_of, notes_of  # noqa: E402
from bench.verdict import judge  # noqa: E402
from tenfold.checkpoints.resolve import resolve  # noqa: E402
from tenfold.cli.console import print_json, print_table  # noqa: E402
from tenfold.core.errors import TenfoldError  # noqa: E402

BUSY_LOAD = 0.5


def compare_model(
    name: str, rows: Sequence[Row], options: argparse.Namespace, screen: Screen
) -> dict[str, Any]:
    """Measure one model and write its results. What was measured is written even when it is interrupted."""
    file = resolve(name)
    facts = model_facts(file)
    screen.say(f"{file.name}: {facts['bits_per_weight']:.2f} bits a weight, {options.threads} threads")
    setting = Setting(file, facts, options.threads, rows, not options.quick, screen.say)
    roster = make_roster(setting, options.peers)
    for peer, reason in roster.absent.items():
        screen.say(f"{peer} is not measured: {reason}")
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        screen.say(f"The machine is busy (load {load:.1f}): these figures tell little.")
    report: dict[str, Any] = {
        "format": FORMAT,
        **facts_of_machine(),
        "load_at_start": load,
        "model": facts,
        "threads": options.threads,
        "repeats": options.repeats,
        "quick": options.quick,
        "complete": False,
        "absent": roster.absent,
        "rows": [],
        "checks": [],
    }
    try:
        measure_rows(report, rows, roster, options.repeats, screen)
        report["complete"] = True
    finally:
        roster.close()
        if report["rows"]:
            report["checks"] = checks_of(report["rows"], facts)
            written = write_results(report, file.stem, options.results)
            written.with_suffix(".svg").write_text(draw(report), encoding="utf-8")
            screen.say(f"Written: {written} and {written.with_suffix('.svg').name}")
    return report


def measure_rows(
    report: dict[str, Any], rows: Sequence[Row], roster: Roster, repeats: int, screen: Screen
) -> None:
    """Measure the rows one after the other into `report`."""
    for row in rows:
        courses = measure_row(row, roster.of(row), repeats, screen.report)
        targets = targets_of(report["model"]["file"], row.name)
        report["rows"].append(judge(row, [figure(course) for course in courses], targets))
        screen.row_done()


def print_report(report: dict[str, Any]) -> None:
    """The table and its notes, for people."""
    model = report["model"]
    title = f"{model['file']}, {report['threads']} threads, tokens/s, medians of {report['repeats']}"
    rows = [cells_of(result, short=True) for result in report["rows"]]
    print_table(title, list(COLUMNS), rows, right=tuple(range(1, len(COLUMNS))))
    for note in notes_of(report):
        print(note)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Compare Tenfold with its peers, interleaved.")
    parser.add_argument(
        "--model",
        action="append",
        metavar="MODEL",
        help=f"a catalog name, hub id or GGUF file; may be repeated; if left out: {', '.join(MODELS)}",
    )
    parser.add_argument(
        "--only", nargs="+", metavar="ROW", help=f"of {', '.join(row.name for row in ROWS)}; all if left out"
    )
    parser.add_argument(
        "--peers", nargs="*", default=list(PEER_NAMES), choices=PEER_NAMES, help="all if left out"
    )
    parser.add_argument("--repeats", type=int, help="measurements of each; 5, or 2 with --quick")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--quick", action="store_true", help="rows an eighth as long, without ceilings or targets"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="folder for results")
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of tables")
    options = parser.parse_args(arguments)
    options.model = options.model or list(MODELS)
    options.repeats = options.repeats or (2 if options.quick else 5)
    if options.repeats < 1 or options.threads < 1:
        parser.error("--repeats and --threads must be at least 1.")
    return options


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Being ended is as Ctrl-C: servers and workers must not outlive this process."""
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; 1 with a sentence on stderr when it cannot be made."""
    options = parse(arguments)
    reports: list[dict[str, Any]] = []
    problems: list[str] = []
    try:
        rows = find_rows(options.only, quick=options.quick)
    except ValueError as problem:
        print(f"compare: {problem}", file=sys.stderr)
        return 1
    with Screen(len(rows) * len(options.model), options.repeats) as screen:
        for name in options.model:
            try:
                reports.append(compare_model(name, rows, options, screen))
            except (PeerError, TenfoldError) as problem:
                problems.append(f"compare: {problem}")
            except KeyboardInterrupt:
                problems.append("compare: interrupted; the rows that were whole are written.")
                break
    if options.json:
        print_json(reports)
    else:
        for report in reports:
            print_report(report)
    for sentence in problems:
        print(sentence, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main())
