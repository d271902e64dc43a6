"""The least time of a load over HTTP: `http_ceiling.py FILE THREADS REQUESTS CLIENTS PROMPT_TOKENS OUTPUT_TOKENS`.

A process of its own, so that its model and threads are gone when it ends. Prints JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tenfold.config.engine import EngineSettings
from tenfold.engine.model import load_model
from tenfold.lab.roofline import Chunk, Roofline, measure_ceilings

CEILING_SECONDS = 0.2


def steps(requests: int, clients: int, prompt: int, output: int) -> Iterator[list[Chunk]]:
    """The steps of an ideal engine: the clients in waves, all prompts of a wave in one step, then its decodes.

    Each wave's first step returns the first of its `output` tokens.
    """
    for begin in range(0, requests, clients):
        wave = min(clients, requests - begin)
        yield [Chunk(0, prompt, True)] * wave
        for made in range(1, output):
            yield [Chunk(prompt + made - 1, 1, True)] * wave


def main(arguments: list[str]) -> None:
    """Load the model, measure the machine, price the steps."""
    threads, requests, clients, prompt, output = map(int, arguments[1:])
    model = load_model(Path(arguments[0]), EngineSettings(threads=threads, max_num_seqs=64))
    native = model.runner.native
    roofline = Roofline(model.program, native.weight_bytes, native.weight_formats, native.weight_products)
    ceilings = measure_ceilings(native.isa, native.threads, CEILING_SECONDS, native.weight_bytes)
    least = sum(roofline.price(step).seconds(ceilings) for step in steps(requests, clients, prompt, output))
    print(
        json.dumps({"seconds": least, "ceilings": msgspec.to_builtins(ceilings), "kv_bytes": native.kv_bytes})
    )


if __name__ == "__main__":
    main(sys.argv[1:])
