"""Random mixes of requests: shared prefixes, many samplers, short and long prompts."""

from __future__ import annotations

import random

from tenfold.core.request import Request
from tenfold.core.sampling_params import SamplingParams


def random_params(rng: random.Random, vocab: int, longest: int) -> SamplingParams:
    """Parameters that touch every sampler now and then."""
    bias = {rng.randrange(vocab): rng.uniform(-5, 5) for _ in range(3)} if rng.random() < 0.2 else {}
    return SamplingParams(
        n=rng.choice((1, 1, 1, 2, 3)),
        temperature=rng.choice((0.0, 0.0, 0.7, 1.0, 1.5)),
        top_k=rng.choice((0, 0, 1, 5, 40)),
        top_p=rng.choice((1.0, 1.0, 0.9, 0.5)),
        min_p=rng.choice((0.0, 0.0, 0.05)),
        typical_p=rng.choice((1.0, 1.0, 0.8)),
        repetition_penalty=rng.choice((1.0, 1.0, 1.2)),
        presence_penalty=rng.choice((0.0, 0.0, 0.5)),
        frequency_penalty=rng.choice((0.0, 0.0, 0.5)),
        logit_bias=bias,
        seed=rng.randrange(2**40),
        max_tokens=rng.randint(1, longest),
        min_tokens=0,
        ignore_eos=rng.random() < 0.5,
        logprobs=rng.choice((None, None, 0, 3)),
        prompt_logprobs=rng.choice((None, None, 2)),
    )


def random_mix(
    seed: int, *, size: int, vocab: int, longest_prompt: int, longest_output: int
) -> list[Request]:
    """`size` requests; about half of them continue one of two common prefixes."""
    rng = random.Random(seed)

    def tokens(count: int) -> list[int]:
        return [rng.randrange(3, vocab) for _ in range(count)]

    prefixes = [tokens(rng.randint(1, max(1, longest_prompt // 2))) for _ in range(2)]
    requests = []
    for number in range(size):
        head = rng.choice(prefixes) if rng.random() < 0.5 else []
        tail = tokens(rng.randint(1, max(1, longest_prompt - len(head))))
        requests.append(
            Request(
                request_id=f"mix{seed}-{number}",
                prompt_token_ids=tuple(head + tail),
                sampling=random_params(rng, vocab, longest_output),
                priority=rng.choice((0, 0, 0, 1, -1)),
                cache_salt=rng.choice(("", "", "tenant")),
            )
        )
    return requests
