"""From the figures of a row to its ratio, its share of the ceiling, and whether its targets are met."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from bench.scenarios import Row, Target


def judge(row: Row, figures: Sequence[dict[str, Any]], targets: Sequence[Target]) -> dict[str, Any]:
    """The row's entry in the results. Tenfold's figures are the first of `figures`."""
    ours = figures[0]
    peers = [each for each in figures[1:] if each["median"] is not None]
    best = max(peers, key=lambda each: each["median"], default=None)
    for peer in peers:
        peer["ratio"] = _ratio(ours["median"], peer["median"])
    shares = [share for each in ours["details"] if (share := each.get("share_of_ceiling")) is not None]
    return {
        "row": row.name,
        "title": row.title,
        "what": row.what,
        "tokens": row.tokens,
        "batch": row.batch,
        "depth": row.depth,
        "tenfold": ours["median"],
        "share_of_ceiling": median(shares) if shares else None,
        "best_peer": best["label"] if best else None,
        "ratio_to_best_peer": best["ratio"] if best else None,
        "targets": [reached(target, ours["median"], peers) for target in targets],
        "entrants": list(figures),
    }


def reached(target: Target, ours: float | None, peers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A target and what became of it; `met` is None where nothing was measured that could tell."""
    rivals = [peer["median"] for peer in peers if target.against in (None, peer["engine"])]
    ratio = _ratio(ours, max(rivals)) if rivals else None
    met = None if ratio is None else ratio >= target.ratio
    return {"ratio": target.ratio, "against": target.against, "reached": ratio, "met": met}


def best_of(result: dict[str, Any], engine: str) -> dict[str, Any] | None:
    """The figures of an engine's best alternative on a row; those of a failed one when none was measured."""
    figures = [each for each in result["entrants"] if each["engine"] == engine]
    measured = [each for each in figures if each["median"] is not None]
    if measured:
        return max(measured, key=lambda each: float(each["median"]))
    return figures[0] if figures else None


def _ratio(ours: float | None, theirs: float) -> float | None:
    return None if ours is None else ours / theirs
