"""The native sampler against its numpy twin, and its own laws."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold import _native
from tenfold.core.sampling_params import SamplingParams
from tenfold.kernels.twins import sampling as twin
from tenfold.sampling.batch import SamplingBatch, SamplingRow, sampling_batch

ISAS = _native.supported_isas()


def native(isa: str, logits: np.ndarray, batch: SamplingBatch) -> tuple[Any, ...]:
    return _native.sample(isa, np.ascontiguousarray(logits), batch.native())


def rows_of(count: int, seed: int = 0, **params: Any) -> list[SamplingRow]:
    return [SamplingRow(params=SamplingParams(**params), seed=seed, draw=i) for i in range(count)]


def spaced_logits(rng: np.random.Generator, vocab: int, spread: float) -> np.ndarray:
    """Distinct, evenly spaced values in random order, so that twins do not differ over near-equals."""
    return (rng.permutation(np.linspace(-spread, spread, vocab)) + rng.normal()).astype(np.float32)


def assert_same(got: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_allclose(got[1], expected[1], atol=1e-4)
    np.testing.assert_array_equal(got[2], expected[2])
    np.testing.assert_allclose(got[3], expected[3], atol=1e-4)


def mask_of(kind: str, vocab: int, seed: int) -> np.ndarray:
    """Words of a mask; bits past the vocabulary are set or not, which must not matter."""
    rng = np.random.default_rng(seed)
    share = {"all": 1.0, "none": 0.0, "sparse": 3 / vocab, "half": 0.5}[kind]
    words = -(-vocab // 32)
    bits = np.packbits(rng.random(words * 32) < share, bitorder="little").view(np.uint32)
    whole = rng.random(words) < 0.3  # words of only ones or zeros go another way
    return np.where(whole, rng.choice(np.array([0, 2**32 - 1], np.uint32), words), bits).astype(np.uint32)


@st.composite
def random_row(draw: st.DrawFn, vocab: int) -> SamplingRow:
    def some(*values: Any) -> Any:
        return draw(st.sampled_from(values))

    ids = st.integers(0, vocab - 1)
    params = SamplingParams(
        temperature=some(0.0, 1e-6, 1e-4, 0.3, 1.0, 1.7, 100.0),
        top_k=some(0, -1, 1, 2, 7, 40, 2**31 - 1),
        top_p=some(1.0, 1.0, 0.95, 0.7, 0.1, 1e-6),
        min_p=some(0.0, 0.0, 0.02, 0.3, 1.0),
        typical_p=some(1.0, 1.0, 0.9, 0.3),
        repetition_penalty=some(1.0, 1.0, 1.3, 0.7),
        presence_penalty=some(0.0, 0.0, 0.6, -1.1),
        frequency_penalty=some(0.0, 0.0, 0.35, -0.3),
        logit_bias=draw(st.dictionaries(ids, st.sampled_from([-100.0, 100.0, 1.25, -3.5]), max_size=3)),
        logprobs=some(None, None, 0, 1, 5, 20),
    )
    return SamplingRow(
        params=params,
        seed=draw(st.integers(-(2**63), 2**64 - 1)),
        draw=draw(st.integers(0, 2**34)),
        prompt_ids=draw(st.lists(ids, max_size=6)),
        output_ids=draw(st.lists(ids, max_size=12)),
        banned_ids=tuple(draw(st.lists(ids, max_size=2))),
    )


@pytest.mark.parametrize("isa", ISAS)
@given(data=st.data())
@settings(max_examples=120, deadline=None, derandomize=True)
def test_mixed_rows_match_the_twin(isa: str, data: st.DataObject) -> None:
    vocab = data.draw(st.sampled_from([1, 2, 5, 16, 63, 64, 65, 300, 511, 512, 513, 1500]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows = data.draw(st.lists(random_row(vocab), min_size=1, max_size=4))
    spread = data.draw(st.sampled_from([0.5, 4.0, 30.0, 200.0]))
    logits = np.stack([spaced_logits(rng, vocab, spread) for _ in rows])
    batch = sampling_batch(rows)
    assert_same(native(isa, logits, batch), twin.sample(logits, batch))


SAMPLERS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.7},
    {"top_k": 3},
    {"top_k": 400},
    {"top_p": 0.95},
    {"top_p": 0.3},
    {"min_p": 0.1},
    {"typical_p": 0.8},
    {"temperature": 1.5, "min_p": 0.01, "typical_p": 0.9, "top_k": 100, "top_p": 0.9},
]


@pytest.mark.parametrize("params", SAMPLERS, ids=str)
@pytest.mark.parametrize("spread", [1.0, 8.0])
@pytest.mark.parametrize("isa", ISAS)
def test_each_sampler_matches_the_twin(isa: str, spread: float, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    logits = np.stack([spaced_logits(rng, 777, spread) for _ in range(24)])
    batch = sampling_batch(rows_of(24, seed=3, logprobs=4, **params))
    assert_same(native(isa, logits, batch), twin.sample(logits, batch))


@pytest.mark.parametrize("params", SAMPLERS, ids=str)
@pytest.mark.parametrize("vocab", [5, 64, 777])
def test_masked_rows_match_the_twin(vocab: int, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(vocab)
    logits = np.stack([spaced_logits(rng, vocab, 8.0) for _ in range(24)])
    kinds = [None, "all", "none", "sparse", "half", "half"] * 4
    masks = [None if kind is None else mask_of(kind, vocab, i) for i, kind in enumerate(kinds)]
    rows = rows_of(24, seed=3, logprobs=4, logit_bias={1: 1.25}, **params)
    batch = sampling_batch(
        [msgspec.structs.replace(row, mask=mask) for row, mask in zip(rows, masks, strict=True)]
    )
    results = [native(isa, logits, batch) for isa in ISAS]
    assert_same(results[0], twin.sample(logits, batch))
    for result in results[1:]:
        assert [a.tobytes() for a in result] == [a.tobytes() for a in results[0]]


@pytest.mark.parametrize("isa", ISAS)
def test_large_vocabulary_matches_the_twin(isa: str) -> None:
    rng = np.random.default_rng(11)
    logits = rng.normal(size=(len(SAMPLERS), 262144)).astype(np.float32) * 3
    rows = [SamplingRow(params=SamplingParams(**p), seed=i, draw=i) for i, p in enumerate(SAMPLERS)]
    batch = sampling_batch(rows)
    np.testing.assert_array_equal(native(isa, logits, batch)[0], twin.sample(logits, batch)[0])


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_instruction_sets_and_batches_give_the_same_bits(data: st.DataObject) -> None:
    vocab = data.draw(st.sampled_from([3, 65, 600, 2000]))
    rows = data.draw(st.lists(random_row(vocab), min_size=2, max_size=5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    logits = (rng.normal(size=(len(rows), vocab)) * 5).astype(np.float32)
    together = native("generic", logits, sampling_batch(rows))
    for isa in ISAS:
        order = rng.permutation(len(rows))
        shuffled = native(isa, logits[order], sampling_batch([rows[i] for i in order]))
        for whole, part in zip(together, shuffled, strict=True):
            assert whole[order].tobytes() == part.tobytes()
    for i, row in enumerate(rows):
        alone = native("generic", logits[i : i + 1], sampling_batch([row]))
        assert alone[0][0] == together[0][i]
        assert alone[1].tobytes() == together[1][i : i + 1].tobytes()


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_equal_logits_give_the_same_bits_and_lower_ids_first(data: st.DataObject) -> None:
    vocab = data.draw(st.sampled_from([2, 64, 200]))
    levels = data.draw(st.lists(st.sampled_from([-1.0, 0.0, 2.0]), min_size=vocab, max_size=vocab))
    logits = np.array([levels], np.float32)
    rows = [data.draw(random_row(vocab))]
    for isa in ISAS:
        got, expected = (
            native(isa, logits, sampling_batch(rows)),
            native("generic", logits, sampling_batch(rows)),
        )
        assert [a.tobytes() for a in got] == [a.tobytes() for a in expected]
    best = np.argsort(-logits[0], kind="stable")
    k = data.draw(st.integers(1, vocab))
    picks = native("generic", np.repeat(logits, 40, 0), sampling_batch(rows_of(40, top_k=k, logprobs=20)))
    assert set(picks[0]) <= set(best[:k].tolist())
    np.testing.assert_array_equal(picks[2][0], best[:20])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("params", SAMPLERS, ids=str)
def test_nan_and_infinite_logits(isa: str, params: dict[str, Any]) -> None:
    nan, inf = np.nan, np.inf
    logits = np.array(
        [
            [nan] * 70,
            [-inf] * 70,
            [nan, -inf] * 35,
            [nan] * 69 + [-4.0],
            [0.0] * 30 + [inf] + [5.0] * 39,
            [-3.0e38, 3.0e38] + [-inf] * 68,
        ],
        np.float32,
    )
    batch = sampling_batch(rows_of(6, logprobs=2, **params))
    tokens, logprobs, top_ids, top_logprobs = native(isa, logits, batch)
    assert tokens.tolist() == [-1, -1, -1, 69, 30, 1]
    assert logprobs[3:].tolist() == [0.0, 0.0, 0.0]
    assert top_ids[:4].tolist() == [[-1, -1]] * 3 + [[69, -1]]
    assert not np.isnan(top_logprobs).any()
    assert_same((tokens, logprobs, top_ids, top_logprobs), twin.sample(logits, batch))


@pytest.mark.parametrize("isa", ISAS)
def test_banning_every_token_gives_none(isa: str) -> None:
    row = SamplingRow(params=SamplingParams(), seed=0, draw=0, banned_ids=(0, 1, 2))
    assert native(isa, np.zeros((1, 3), np.float32), sampling_batch([row]))[0].tolist() == [-1]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("params", SAMPLERS, ids=str)
@pytest.mark.parametrize("vocab", [1, 31, 32, 33, 700])
def test_only_tokens_of_the_mask_are_picked(isa: str, params: dict[str, Any], vocab: int) -> None:
    rng = np.random.default_rng(vocab)
    logits = rng.normal(size=(20, vocab)).astype(np.float32) * 8
    masks = [mask_of("half", vocab, i) for i in range(20)]
    rows = [
        SamplingRow(params=SamplingParams(logprobs=1, **params), seed=i, draw=i, mask=m)
        for i, m in enumerate(masks)
    ]
    tokens, _, top_ids, _ = native(isa, logits, sampling_batch(rows))
    for token, mask, row, top in zip(tokens, masks, logits, top_ids[:, 0], strict=True):
        allowed = np.unpackbits(mask.view(np.uint8), bitorder="little")[:vocab].astype(bool)
        assert allowed[token] if allowed.any() else token == -1
        if params.get("temperature") == 0 and allowed.any():
            assert row[token] == row[allowed].max()
        assert top == row.argmax(), "log probabilities are of the logits as the model gave them"


def test_masks_that_do_not_fit_are_refused() -> None:
    arrays, masks = sampling_batch(rows_of(2)).native(), np.ones((1, 2), np.uint32)
    for numbers in ([-2, 0], [0, 1]):
        with pytest.raises(ValueError, match="mask_rows names mask"):
            arrays.set_masks(np.array(numbers, np.int32), masks)
    with pytest.raises(ValueError, match="mask_rows has 3"):
        arrays.set_masks(np.full(3, -1, np.int32), masks)
    arrays.set_masks(np.array([-1, 0], np.int32), masks)
    _native.sample("generic", np.zeros((2, 64), np.float32), arrays)
    with pytest.raises(ValueError, match=r"2 words .* vocabulary's size, 65"):
        _native.sample("generic", np.zeros((2, 65), np.float32), arrays)


def test_tiny_temperature_is_greedy_without_overflow() -> None:
    logits = np.array([[-3.0e38, 1.0, 1.00001, 3.0]], np.float32).repeat(4, 0)
    rows = [
        SamplingRow(params=SamplingParams(temperature=t), seed=0, draw=0) for t in (1e-45, 1e-10, 1e-5, 1e-4)
    ]
    assert native("generic", logits, sampling_batch(rows))[0].tolist() == [3] * 4


def test_philox_known_answers() -> None:
    # First two words of Philox 4x32-10 for an all-zero counter and key, as Random123 publishes them.
    expected = ((0x6627E8D5 << 32 | 0xE169C58D) >> 11) * 2.0**-53
    assert twin.uniform(0, 0) == expected
    assert _native.uniform(0, 0) == expected


@given(seed=st.integers(0, 2**64 - 1), draw=st.integers(0, 2**64 - 1))
def test_random_numbers_match_the_twin(seed: int, draw: int) -> None:
    assert _native.uniform(seed, draw) == twin.uniform(seed, draw)
    assert 0 <= _native.uniform(seed, draw) < 1


def broken(**changes: Any) -> SamplingBatch:
    return msgspec.structs.replace(sampling_batch(rows_of(2)), **changes)


@pytest.mark.parametrize("kind", ["prompt", "output", "bias", "banned"])
def test_ids_and_offsets_out_of_range_are_refused(kind: str) -> None:
    def build(ids: list[int], offsets: list[int]) -> Any:
        changes: dict[str, Any] = {
            f"{kind}_ids": np.array(ids, np.int32),
            f"{kind}_offsets": np.array(offsets, np.int64),
        }
        if kind == "bias":
            changes["bias_values"] = np.zeros(len(ids), np.float32)
        return _native.SamplingArrays(*broken(**changes).arguments())

    with pytest.raises(ValueError, match="negative id -1"):
        build([0, -1], [0, 1, 2])
    for offsets in ([0, 2], [0, 1, 1], [0, 1, 3], [1, 1, 2], [0, 3, 2], [0, -1, 2]):
        with pytest.raises(ValueError, match="offsets"):
            build([0, 1], offsets)
    arrays = build([0, 8], [0, 1, 2])
    assert len(arrays) == 2
    with pytest.raises(ValueError, match=r"token 8.*size, 8"):
        _native.sample("generic", np.zeros((2, 8), np.float32), arrays)
    with pytest.raises(ValueError, match=r"token 8.*size, 8"):
        arrays.check_vocab(8)
    _native.sample("generic", np.zeros((2, 9), np.float32), arrays)


def test_misfitting_arrays_are_refused() -> None:
    cases: dict[str, Any] = {
        "floats": np.zeros((2, 6), np.float32),
        "top_k": np.zeros(3, np.int32),
        "seed": np.zeros(1, np.uint64),
        "draw": np.zeros(0, np.uint64),
        "num_logprobs": np.zeros(3, np.int32),
        "bias_values": np.zeros(1, np.float32),
    }
    for name, value in cases.items():
        with pytest.raises(ValueError, match=name):
            _native.SamplingArrays(*broken(**{name: value}).arguments())
    with pytest.raises(TypeError):
        _native.SamplingArrays(*broken(top_k=np.zeros(2, np.int64)).arguments())
    arrays = _native.SamplingArrays(*broken().arguments())
    with pytest.raises(ValueError, match="has 3 rows"):
        _native.sample("generic", np.zeros((3, 4), np.float32), arrays)
    with pytest.raises(ValueError, match="instruction set"):
        _native.sample("mmx", np.zeros((2, 4), np.float32), arrays)


def test_logits_stay_and_empty_inputs_work() -> None:
    logits = np.arange(12, dtype=np.float32).reshape(2, 6)
    logits.flags.writeable = False
    native("generic", logits, sampling_batch(rows_of(2, temperature=0.5, frequency_penalty=1.0)))
    np.testing.assert_array_equal(logits, np.arange(12).reshape(2, 6))
    assert [a.shape for a in native("generic", np.zeros((0, 6), np.float32), sampling_batch([]))] == [
        (0,),
        (0,),
        (0, 0),
        (0, 0),
    ]
    assert native("generic", np.zeros((1, 0), np.float32), sampling_batch(rows_of(1)))[0].tolist() == [-1]


def test_hostile_numbers_give_tokens_in_range_on_every_instruction_set() -> None:
    rng = np.random.default_rng(5)
    nan, inf = np.nan, np.inf
    columns = [
        [0, 1e-5, 1, 100, -1, nan, inf],  # temperature
        [1, 0.9, 0, -1, 1e-9, nan],
        [0, 0.1, 1, 2, nan],
        [1, 0.9, 0, -1, nan],
        [1, 1.2, 0, -3, nan],  # repetition penalty
        [0, 1, -2, inf],
        [0, 1, -2, nan],
    ]
    specials = np.array([nan, inf, -inf, 3e38, -3e38, 0, -0.0, 1e-40], np.float32)
    for vocab in [*rng.integers(1, 700, 60), 3000]:
        rows = 16
        logits = rng.normal(size=(rows, vocab)).astype(np.float32) * 10
        logits[::2] = np.where(rng.random((rows // 2, vocab)) < 0.3, rng.choice(specials), logits[::2])
        ids = [rng.integers(0, vocab, rows * 4).astype(np.int32) for _ in range(4)]
        offsets = np.arange(0, rows * 4 + 1, 4, dtype=np.int64)
        arrays = _native.SamplingArrays(
            np.stack([rng.choice(c, rows) for c in columns], 1).astype(np.float32),
            rng.choice([-1, 0, 1, 5, 600, 2**31 - 1], rows).astype(np.int32),
            rng.integers(0, 2**63, rows).astype(np.uint64),
            np.zeros(rows, np.uint64),
            rng.choice([-5, -1, 0, 3, 10_000], rows).astype(np.int32),
            *(ids[0], offsets, ids[1], offsets, ids[2], offsets),
            rng.choice([100, -100, nan, inf], rows * 4).astype(np.float32),
            *(ids[3], offsets),
        )
        if vocab % 2:
            words = rng.integers(0, 2**32, (2, -(-vocab // 32)), np.uint32)
            arrays.set_masks(rng.choice([-1, 0, 1], rows).astype(np.int32), words)
        results = [_native.sample(isa, logits, arrays) for isa in ISAS]
        tokens, logprobs = results[0][:2]
        assert ((tokens >= -1) & (tokens < vocab)).all()
        assert np.isfinite(logprobs).all()
        for result in results[1:]:
            assert [a.tobytes() for a in result] == [a.tobytes() for a in results[0]]
