"""Counters and gauges of the engine."""

from __future__ import annotations

import msgspec


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot. Counters count since start; `dead` is the sentence that says why the engine stopped, if it did."""

    num_running: int = 0
    num_waiting: int = 0
    kv_usage: float = 0.0
    prefix_queries_tokens: int = 0
    prefix_hit_tokens: int = 0
    preemptions: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    dead: str | None = None
