"""Greedy requests of random tokens, as the engine's measurements send them."""

from __future__ import annotations

import random
from itertools import count

from tenfold.core.errors import TenfoldError
from tenfold.core.request import Request
from tenfold.core.sampling_params import SamplingParams
from tenfold.engine.core import EngineCore
from tenfold.engine.memory import available_memory


class RandomRequests:
    """Makes random prompts and gives them to an engine.

    Args:
        engine: takes the requests.
        seed: of the tokens.
        name: what request ids begin with.
    """

    def __init__(self, engine: EngineCore, seed: int, name: str) -> None:
        self._engine = engine
        self._random = random.Random(seed)
        self._vocab = engine.model.program.vocab_size
        self._ids = (f"{name}-{number}" for number in count())

    def tokens(self, number: int) -> tuple[int, ...]:
        """New random token ids."""
        return tuple(self._random.randrange(self._vocab) for _ in range(number))

    def add(self, prompt: tuple[int, ...], max_tokens: int | None) -> str:
        """Give a greedy request to the engine that ends at `max_tokens` or the context; returns its id."""
        request_id = next(self._ids)
        params = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)
        self._engine.add(Request(request_id=request_id, prompt_token_ids=prompt, sampling=params))
        return request_id

    def finish(self) -> None:
        """Run steps until the engine has no work."""
        while self._engine.has_work():
            self._engine.step()


def check_cache_fits(kv_bytes: int, options: str) -> None:
    """Raise TenfoldError if a KV cache of so many bytes is more than the free memory; `options` would mend it."""
    free = available_memory()
    if kv_bytes > free:
        raise TenfoldError(
            f"The KV cache would take {kv_bytes / 2**20:.0f} MiB, but {free / 2**20:.0f} MiB are free; lower {options}."
        )
