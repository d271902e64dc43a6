"""transformers in bfloat16 as a worker: `transformers_worker.py FOLDER --threads N`. See row_loop.py.

A bare loop over the model with its KV cache and greedy choice, without generate()'s overhead.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from row_loop import WorkerRow, random_prompts, serve


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, required=True)
    return parser.parse_args()


def load(wanted: argparse.Namespace) -> tuple[Callable[[WorkerRow, int], float], dict[str, Any]]:
    """Load the model; run it once so that the first measurement pays no first-time costs."""
    import torch
    import transformers

    torch.set_num_threads(wanted.threads)
    torch.set_grad_enabled(False)
    model = transformers.AutoModelForCausalLM.from_pretrained(wanted.folder, dtype=torch.bfloat16)
    model.eval()
    vocab = model.config.vocab_size

    def forward(tokens: torch.Tensor, cache: Any) -> torch.Tensor:
        result = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return result.logits[:, -1:].argmax(-1)

    def measure(row: WorkerRow, number: int) -> float:
        prompts = torch.tensor(random_prompts(row, vocab, number))
        cache = transformers.DynamicCache()
        if row.what == "prefill" and row.depth:
            forward(prompts[:, : row.depth], cache)
            prompts = prompts[:, row.depth :]
        begin = time.perf_counter()
        token = forward(prompts, cache)
        if row.what == "prefill":
            return row.tokens * row.batch / (time.perf_counter() - begin)
        begin = time.perf_counter()
        for _ in range(row.tokens):
            token = forward(token, cache)
        return row.tokens * row.batch / (time.perf_counter() - begin)

    measure(WorkerRow("decode", 4, 1, 16), -1)
    facts = {"version": transformers.__version__, "torch": torch.__version__, "threads": wanted.threads}
    return measure, facts


if __name__ == "__main__":
    serve(lambda: load(options()))
