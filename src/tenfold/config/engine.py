"""Settings of the engine."""

from __future__ import annotations

import msgspec


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to run a model. None means: chosen at start, and said so.

    Args:
        threads: compute threads; None takes the CPUs this process may use.
        isa: kernels to use ("generic", "avx2", "avx512", "amx"); None takes TENFOLD_ISA or the CPU's best
            for max_num_seqs.
        max_model_len: longest prompt plus output, in tokens; None takes the model's context length.
        max_num_seqs: sequences that run at once.
        max_num_batched_tokens: tokens computed in one step; bounds how long a prefill can delay a decode.
        max_prefill_beside_decodes: tokens of prompts in a step in which sequences decode, at most, or two for each of
            those if that is more. Keeps the time between two tokens even while prompts come in; as many as
            max_num_batched_tokens lifts it.
        block_size: tokens a KV block, a multiple of 16.
        kv_cache_memory_bytes: size of the KV cache; None takes what max_num_seqs full contexts need, at most
            2 GiB or a third of the memory now available, and at least one full context if three quarters hold it.
        enable_prefix_caching: reuse KV blocks of equal prefixes.
        max_waiting: requests that may wait; more get 429.
        chat_template: file with a Jinja chat template to use instead of the model's.
        debug_checks: check the engine's books whenever nothing is left to do, and stop with the reason in /health
            when they do not balance. For tests: a check looks at every KV block.
    """

    threads: int | None = None
    isa: str | None = None
    max_model_len: int | None = None
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 512
    max_prefill_beside_decodes: int = 32
    block_size: int = 16
    kv_cache_memory_bytes: int | None = None
    enable_prefix_caching: bool = True
    max_waiting: int = 1024
    chat_template: str | None = None
    debug_checks: bool = False
