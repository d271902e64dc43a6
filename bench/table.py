"""The results as a table's cells: for the terminal, and for the README."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.peers import PEER_NAMES
from bench.verdict import best_of

TITLES = {"llama.cpp": "llama.cpp", "vllm": "vLLM", "transformers": "transformers"}
COLUMNS = ("", "Tenfold", "of ceiling", *(TITLES[name] for name in PEER_NAMES), "ratio", "target", "met")
NOTHING = "–"


def cells_of(result: dict[str, Any]) -> list[str]:
    """A row's cells, in the order of COLUMNS."""
    share, ratio = result["share_of_ceiling"], result["ratio_to_best_peer"]
    targets = result["targets"]
    return [
        result["title"] or result["row"],
        rate_text(result["tenfold"]),
        NOTHING if share is None else f"{share:.0%}",
        *(peer_cell(best_of(result, name)) for name in PEER_NAMES),
        NOTHING if ratio is None else f"{ratio:.2f} ×",
        "; ".join(target_text(target) for target in targets) or NOTHING,
        "; ".join(met_text(target) for target in targets) or NOTHING,
    ]


def rate_text(rate: float | None) -> str:
    """Tokens a second with three digits."""
    if rate is None:
        return "failed"
    return f"{rate:.1f}" if rate < 100 else f"{rate:.0f}"


def peer_cell(figure: dict[str, Any] | None) -> str:
    """A peer's best rate; ~ marks one that was measured once."""
    if figure is None:
        return NOTHING
    if figure["median"] is None:
        return "failed"
    return ("~" if figure["state"] == "once" else "") + rate_text(figure["median"])


def target_text(target: dict[str, Any]) -> str:
    """What is to be reached."""
    against = f" {TITLES[target['against']]}" if target["against"] else ""
    return f"≥ {target['ratio']:g} ×{against}"


def met_text(target: dict[str, Any]) -> str:
    """What became of a target."""
    if target["met"] is None:
        return "not measured"
    ratio = f" ({target['reached']:.1f} ×)" if target["against"] else ""
    return ("met" if target["met"] else "missed") + ratio


def notes_of(report: dict[str, Any]) -> list[str]:
    """Sentences below the table: who was not measured or failed, and what else was to hold."""
    notes = [f"{TITLES[name]}: not measured ({reason})." for name, reason in report["absent"].items()]
    for result in report["rows"]:
        for each in result["entrants"]:
            if each["state"] == "failed":
                notes.append(f"{result['title'] or result['row']}: {each['label']} failed ({each['why']}).")
    if any(each["state"] == "once" for result in report["rows"] for each in result["entrants"]):
        notes.append("~: measured once, as its first sample was far below the best peer's.")
    return notes + [check_text(check) for check in report["checks"]]


def check_text(check: dict[str, Any]) -> str:
    """A check with its figure and whether it holds."""
    return f"{check['what']}: {check['value']} ({check['limit']}): {'met' if check['met'] else 'missed'}."


def markdown(rows: Sequence[Sequence[str]], columns: Sequence[str] = COLUMNS) -> str:
    """A Markdown table; the first column left-aligned, the others right."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
