"""Write the README's table of speeds from the newest results: `python bench/readme.py` (--check: is it up to date?)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench.results import newest_results  # noqa: E402
from bench.table import cells_of, markdown, notes_of  # noqa: E402

BEGIN = "<!-- speed: written by bench/readme.py from bench/results -->"
END = "<!-- end of speed -->"


def section(
    newest: Mapping[tuple[str, str], tuple[Path, dict[str, Any]]], folder: str = "bench/results"
) -> str:
    """The Markdown between the markers: a table, a plot and notes for each model and CPU."""
    parts = []
    for key in sorted(newest, key=lambda key: (newest[key][1]["model"]["bytes"], key)):
        (name, _), (file, report) = key, newest[key]
        head = (
            f"**{name}** ({report['model']['bits_per_weight']:.1f} bits a weight), tokens/s on "
            f"{report['threads']} threads of an {report['cpu']} ({kernels_of(report)}), {report['date'][:10]}, "
            f"medians of {report['repeats']} ([all figures]({folder}/{file.name})):"
        )
        parts += [head, markdown([cells_of(row) for row in report["rows"]])]
        if file.with_suffix(".svg").exists():
            parts.append(f"![{name}: ratios and shares of the ceiling]({folder}/{file.stem}.svg)")
        notes = notes_of(report)
        if notes:
            parts.append("\n".join(f"- {note}" for note in notes))
    return "\n\n".join(parts)


def kernels_of(report: Mapping[str, Any]) -> str:
    """The instruction sets that Tenfold's rows used, which depend on how many sequences a row has."""
    entrants = [each for row in report["rows"] for each in row["entrants"] if each["label"] == "tenfold"]
    used = {detail["isa"] for each in entrants for detail in each["details"] if "isa" in detail}
    return " and ".join(sorted(used)) or str(report["isa"])


def replaced(text: str, inner: str) -> str:
    """The text with `inner` between its markers.

    Raises:
        ValueError: it does not have each marker once, in order.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"The README must have the lines {BEGIN!r} and {END!r} once each, in this order.")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{inner}\n\n{END}{rest.partition(END)[2]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite the README; 1 with a sentence when that cannot be done or --check finds a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail if the table is not the results'"
    )
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    options = parser.parse_args(arguments)
    newest = newest_results(options.results)
    if not newest:
        print(f"readme: {options.results} has no complete results; run make bench.", file=sys.stderr)
        return 1
    text = options.readme.read_text(encoding="utf-8")
    try:
        wanted = replaced(text, section(newest))
    except ValueError as problem:
        print(f"readme: {problem}", file=sys.stderr)
        return 1
    if options.check:
        if wanted != text:
            print(
                "readme: the table is not that of the newest results; run bench/readme.py.", file=sys.stderr
            )
            return 1
        return 0
    options.readme.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
