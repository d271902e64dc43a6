"""vLLM's CPU engine as a worker: `vllm_worker.py FOLDER --threads N --max-len N --seqs N`. See row_loop.py.

The engine runs in this process, without its server and without detokenizing; the figures are its best case.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

from row_loop import WorkerRow, random_prompts, serve


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--max-len", type=int, required=True, help="longest prompt plus output, in tokens")
    parser.add_argument("--seqs", type=int, required=True, help="sequences at once")
    parser.add_argument("--step-tokens", type=int, default=2048, help="tokens a step")
    parser.add_argument("--kv-gib", type=int, default=2, help="GiB of KV cache")
    return parser.parse_args()


def load(wanted: argparse.Namespace) -> tuple[Callable[[WorkerRow, int], float], dict[str, Any]]:
    """Load the engine, its threads bound to the CPUs that this process may use."""
    cpus = sorted(os.sched_getaffinity(0))[: wanted.threads]
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", ",".join(map(str, cpus)))
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(wanted.kv_gib))
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    import vllm

    engine = vllm.LLM(
        model=wanted.folder,
        dtype="bfloat16",
        max_model_len=wanted.max_len,
        max_num_seqs=wanted.seqs,
        max_num_batched_tokens=wanted.step_tokens,
        enable_prefix_caching=False,
        disable_log_stats=True,
        seed=0,
    )
    vocab = engine.llm_engine.model_config.get_vocab_size()
    core = engine.llm_engine

    def measure(row: WorkerRow, number: int) -> float:
        prompts = random_prompts(row, vocab, number)
        output = 1 if row.what == "prefill" else row.tokens + 1
        params = vllm.SamplingParams(temperature=0.0, max_tokens=output, ignore_eos=True, detokenize=False)
        begin = time.perf_counter()
        for place, prompt in enumerate(prompts):
            core.add_request(f"{number}-{place}", {"prompt_token_ids": prompt}, params)
        waiting = {f"{number}-{place}" for place in range(row.batch)}
        counts: dict[str, int] = {}
        started, before = 0.0, 0
        while core.has_unfinished_requests():
            for made in core.step():
                waiting.discard(made.request_id)
                counts[made.request_id] = len(made.outputs[0].token_ids)
            if not waiting and not started:
                started, before = time.perf_counter(), sum(counts.values())
        end = time.perf_counter()
        if row.what == "prefill":
            return row.tokens * row.batch / (started - begin)
        return (sum(counts.values()) - before) / (end - started)

    return measure, {"version": vllm.__version__, "threads": len(cpus), "step_tokens": wanted.step_tokens}


if __name__ == "__main__":
    serve(lambda: load(options()))
