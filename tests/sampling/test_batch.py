from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from tenfold import _native
from tenfold.core.sampling_params import SamplingParams
from tenfold.sampling.batch import SamplingCache, SamplingRow, sampling_batch


class Unread(Sequence[int]):
    """A history that fails the test when it is looked at."""

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("the history was read")

    def __len__(self) -> int:
        raise AssertionError("the history was read")


def row(
    prompt: Sequence[int] = (), output: Sequence[int] = (), banned: tuple[int, ...] = (), **params: Any
) -> SamplingRow:
    return SamplingRow(
        params=SamplingParams(**params),
        seed=1,
        draw=2,
        prompt_ids=prompt,
        output_ids=output,
        banned_ids=banned,
    )


def test_rows_without_penalties_leave_histories_unread() -> None:
    batch = sampling_batch([row(Unread(), Unread(), top_p=0.9), row(Unread(), [4], presence_penalty=0.5)])
    assert len(batch) == 2
    assert batch.prompt_ids.size == 0
    assert batch.prompt_offsets.tolist() == [0, 0, 0]
    assert batch.output_ids.tolist() == [4]
    assert batch.output_offsets.tolist() == [0, 0, 1]


def test_columns_hold_each_rows_values() -> None:
    batch = sampling_batch(
        [
            row(temperature=0.5, top_p=0.75, min_p=0.25, top_k=7, logprobs=3),
            row([5, 6], array("i", [7]), (8, 9), repetition_penalty=1.5, typical_p=0.5),
            row((), np.array([1, 2], np.int32), frequency_penalty=0.25, logit_bias={3: -100.0, 4: 1.5}),
        ]
    )
    assert batch.floats.dtype == np.float32
    assert batch.floats.tolist() == [
        [0.5, 0.75, 0.25, 1, 1, 0, 0],
        [1, 1, 0, 0.5, 1.5, 0, 0],
        [1, 1, 0, 1, 1, 0, 0.25],
    ]
    assert batch.top_k.tolist() == [7, 0, 0]
    assert batch.num_logprobs.tolist() == [3, -1, -1]
    assert (batch.prompt_ids.tolist(), batch.prompt_offsets.tolist()) == ([5, 6], [0, 0, 2, 2])
    assert (batch.output_ids.tolist(), batch.output_offsets.tolist()) == ([7, 1, 2], [0, 0, 1, 3])
    assert (batch.bias_ids.tolist(), batch.bias_offsets.tolist()) == ([3, 4], [0, 0, 0, 2])
    assert batch.bias_values.tolist() == [-100.0, 1.5]
    assert (batch.banned_ids.tolist(), batch.banned_offsets.tolist()) == ([8, 9], [0, 0, 2, 2])


def test_seeds_of_any_sign_fit() -> None:
    seeds = [0, -1, 2**63, -(2**63), 2**64 + 5]
    batch = sampling_batch(
        [SamplingRow(params=SamplingParams(), seed=s, draw=i) for i, s in enumerate(seeds)]
    )
    assert batch.seed.dtype == np.uint64
    assert batch.seed.tolist() == [0, 2**64 - 1, 2**63, 2**63, 5]
    assert batch.draw.tolist() == [0, 1, 2, 3, 4]


def test_ids_outside_int32_are_refused() -> None:
    with pytest.raises(OverflowError):
        sampling_batch([row([2**31], repetition_penalty=2.0)])


def test_no_rows() -> None:
    batch = sampling_batch([])
    assert len(batch) == 0
    assert batch.floats.shape == (0, 7)
    assert batch.prompt_offsets.tolist() == [0]
    assert batch.masks.shape == (0, 1)
    assert len(batch.arguments()) == 14


def test_only_rows_with_a_mask_bring_one() -> None:
    masks = [np.array([word, 7], np.uint32) for word in (1, 2)]
    rows = [
        SamplingRow(params=SamplingParams(), seed=0, draw=0, mask=mask) for mask in (None, masks[0], masks[1])
    ]
    batch = sampling_batch([*rows, rows[0]])
    assert batch.mask_rows.tolist() == [-1, 0, 1, -1]
    assert batch.masks.dtype == np.uint32
    assert batch.masks.tolist() == [[1, 7], [2, 7]]


def test_the_cache_hands_over_new_masks() -> None:
    cache, params, logits = SamplingCache(), SamplingParams(temperature=0), np.zeros((2, 40), np.float32)
    arrays = []
    for token in (3, 39, 0):
        mask = np.zeros(2, np.uint32)
        mask[token // 32] = 1 << token % 32
        rows = [SamplingRow(params=params, seed=0, draw=token, mask=which) for which in (None, mask)]
        arrays.append(cache.arrays(rows))
        assert _native.sample("generic", logits, arrays[-1])[0].tolist() == [0, token]
    assert arrays[0] is arrays[1] is arrays[2]
    rows = [SamplingRow(params=params, seed=0, draw=9, mask=which) for which in (mask, None)]
    assert cache.arrays(rows) is not arrays[2], "another row has the mask"


def test_the_cache_gives_what_making_the_arrays_anew_gives() -> None:
    chooser, generator = random.Random(3), np.random.default_rng(3)
    kinds = [
        SamplingParams(),
        SamplingParams(temperature=0.5, top_k=4, logit_bias={3: 1.0}),
        SamplingParams(presence_penalty=0.5),
        SamplingParams(repetition_penalty=1.5),
    ]
    cache, rows = SamplingCache(), [SamplingRow(params=kinds[0], seed=1, draw=0)]
    reused = 0
    for step in range(300):
        if chooser.random() < 0.3:
            plain = chooser.random() < 0.6
            rows = [
                SamplingRow(
                    params=chooser.choice(kinds[:2] if plain else kinds),
                    seed=chooser.randrange(2),
                    draw=step,
                    prompt_ids=(1, 2),
                    output_ids=[step % 5] * chooser.randrange(3),
                    banned_ids=(7,) if chooser.random() < 0.1 else (),
                    mask=np.zeros(1, np.uint32) if chooser.random() < 0.3 else None,
                )
                for _ in range(chooser.randrange(4))
            ]
        rows = [
            msgspec.structs.replace(
                row,
                draw=row.draw + 1,
                mask=None if row.mask is None else generator.integers(0, 4096, 1, np.uint32),
            )
            for row in rows
        ]
        before = cache._arrays
        arrays, fresh = cache.arrays(rows), sampling_batch(rows).native()
        reused += arrays is before
        logits = generator.normal(size=(len(rows), 12)).astype(np.float32)
        for one, other in zip(
            _native.sample("generic", logits, arrays), _native.sample("generic", logits, fresh), strict=True
        ):
            assert one.tolist() == other.tolist()
    assert 50 < reused < 300
