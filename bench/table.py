"""The results as a table's cells: for the terminal, and for the README."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.peers import PEER_NAMES
from bench.verdict import best_of

TITLES = {"llama.cpp": "llama.cpp", "vllm": "vLLM", "transformers": "transformers"}
COLUMNS = ("row", "Tenfold", "ceiling", *(TITLES[name] for name in PEER_NAMES), "ratio", "target", "met")
NOTHING = "–"


def cells_of(result: dict[str, Any], *, short: bool = False) -> list[str]:
    """A row's cells, in the order of COLUMNS; `short` names the row as on the command line."""
    share, ratio = result["share_of_ceiling"], result["ratio_to_best_peer"]
    target = next((each for each in result["targets"] if each["against"] is None), None)
    return [
        result["row"] if short else result["title"] or result["row"],
        rate_text(result["tenfold"]),
        NOTHING if share is None else f"{share:.0%}",
        *(peer_cell(best_of(result, name)) for name in PEER_NAMES),
        NOTHING if ratio is None else f"{ratio:.2f} ×",
        NOTHING if target is None else f"≥ {target['ratio']:g} ×",
        NOTHING if target is None or target["met"] is None else "yes" if target["met"] else "no",
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


def target_text(result: dict[str, Any], target: dict[str, Any]) -> str:
    """A target against one peer, and what became of it."""
    row, peer, limit = result["title"] or result["row"], TITLES[target["against"]], target["ratio"]
    if target["met"] is None:
        return f"{row}: {peer} was not measured (at least {limit:g} × it)."
    outcome = "met" if target["met"] else "missed"
    return f"{row}: {target['reached']:.1f} × {peer} (at least {limit:g} ×): {outcome}."


def notes_of(report: dict[str, Any]) -> list[str]:
    """Sentences below the table: who was not measured or failed, and what else was to hold."""
    notes = [f"{TITLES[name]}: not measured ({reason})." for name, reason in report["absent"].items()]
    for result in report["rows"]:
        notes += [target_text(result, target) for target in result["targets"] if target["against"]]
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
