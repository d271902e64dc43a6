"""What is to hold beside the ratios: serving's cost over the engine, smoothness, start and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from bench.scenarios import ready_limit

KEEPS = 0.85
TAIL = 3.0
MEMORY_FACTOR = 1.15
MEMORY_SLACK = 200_000_000


def checks_of(results: Sequence[dict[str, Any]], model: dict[str, Any]) -> list[dict[str, Any]]:
    """Checks of Tenfold's server, from the rows that were measured; empty without an HTTP row.

    Args:
        results: entries of bench.verdict.judge.
        model: of bench.results.model_facts.
    """
    rows = {result["row"]: result for result in results}
    http, batch = rows.get("http16"), rows.get("tg-b16")
    if http is None or http["tenfold"] is None:
        return []
    details = http["entrants"][0]["details"]
    return [*_against_engine(http, batch), *_of_samples(details, model)]


def _against_engine(http: dict[str, Any], batch: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if batch is None or batch["tenfold"] is None:
        return
    kept = http["tenfold"] / batch["tenfold"]
    what = "HTTP with 16 clients, of the engine's own speed at batch 16"
    yield _check(what, f"{kept:.0%}", f"at least {KEEPS:.0%}", kept >= KEEPS)


def _of_samples(details: Sequence[dict[str, Any]], model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Checks over the server's runs: medians, and of memory the most."""
    tail = median(each["itl_ms"]["p99"] / each["itl_ms"]["p50"] for each in details)
    what = "time between tokens over HTTP, p99 over p50"
    yield _check(what, f"{tail:.1f}", f"at most {TAIL:g}", tail <= TAIL)
    limit = ready_limit(model["file"])
    if limit is not None:
        ready = median(each["ready_s"] for each in details)
        yield _check("server, start to ready", f"{ready:.2f} s", f"under {limit:g} s", ready < limit)
    pools = [each["kv_bytes"] for each in details if "kv_bytes" in each]
    if pools:
        held = max(each["resident_bytes"] for each in details)
        allowed = MEMORY_FACTOR * model["bytes"] + max(pools) + MEMORY_SLACK
        text = f"at most {allowed / 1e6:.0f} MB: {MEMORY_FACTOR:g} × weights + KV cache + 200 MB"
        yield _check("server's resident memory", f"{held / 1e6:.0f} MB", text, held <= allowed)


def _check(what: str, value: str, limit: str, met: bool) -> dict[str, Any]:
    return {"what": what, "value": value, "limit": limit, "met": met}
