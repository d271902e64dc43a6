"""Counters and gauges of an engine."""

from __future__ import annotations

import msgspec


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot. Counters count since the start.

    Args:
        num_running: sequences that hold KV blocks.
        num_waiting: sequences that hold none: not started yet, or preempted.
        kv_usage: share of the KV blocks in use, 0 to 1.
        prefix_queries_tokens: prompt tokens looked up in the prefix cache, once a completion.
        prefix_hit_tokens: of them, tokens found there.
        preemptions: times a sequence lost its blocks.
        steps: steps run.
        prompt_tokens: prompt tokens taken in.
        generation_tokens: tokens generated.
        kv_blocks: KV blocks in all.
        kv_block_size: tokens a block.
        dead: the sentence that says why the engine stopped, if it did.
    """

    num_running: int = 0
    num_waiting: int = 0
    kv_usage: float = 0.0
    prefix_queries_tokens: int = 0
    prefix_hit_tokens: int = 0
    preemptions: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    kv_blocks: int = 0
    kv_block_size: int = 0
    dead: str | None = None
