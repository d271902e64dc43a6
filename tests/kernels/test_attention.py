"""Native attention against its numpy twin, and byte for byte against itself however the work is grouped."""

from __future__ import annotations

import numpy as np
import pytest

from tenfold import _native
from tenfold.kernels.twins import attention as twin
from tests.attention_cases import ROUNDS, TOLERANCE, Layer, Work, seen_by, solo

ISAS = _native.supported_isas()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("head_dim", [16, 48, 64, 80, 128, 256])
@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (9, 3), (7, 1), (12, 1), (40, 1)])
@pytest.mark.parametrize("window", [0, 1, 20])
def test_matches_twin(isa: str, head_dim: int, heads: int, kv_heads: int, window: int) -> None:
    block_size = 16 if head_dim % 64 else 32
    work = Work.random(70, heads, kv_heads, head_dim)
    layer = Layer(kv_heads, head_dim, block_size, [70])
    slow = twin.PagedCache(layer.cache.copy(), *layer.geometry)
    sequences = [(0, 70, 0)]
    q = seen_by(isa, work.q, head_dim**-0.5)
    want = twin.attention(slow, q, work.k, work.v, sequences, layer.blocks, head_dim**-0.5, window)
    got = layer.run(isa, work, sequences, [0], window=window, threads=2)
    np.testing.assert_allclose(got, want, atol=TOLERANCE[isa], rtol=0)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("window", [0, 300])
def test_mixed_batch_matches_twin(isa: str, window: int) -> None:
    """Decodes at depth, a chunk in the middle of its prompt and a fresh prompt, in one call."""
    lengths, counts = [530, 257, 16, 40, 300], [1, 1, 16, 40, 44]
    layer = Layer(2, 64, 16, lengths)
    before = Work.random(max(lengths), 6, 2, 64, seed=3)
    for i, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        if length > count:
            layer.run(isa, before.rows(0, length - count), [(0, length - count, 0)], [i], window=window)
    slow = twin.PagedCache(layer.cache.copy(), *layer.geometry)
    work = Work.random(sum(counts), 6, 2, 64, seed=4)
    at = np.cumsum([0, *counts])
    sequences = [(int(at[i]), counts[i], lengths[i] - counts[i]) for i in range(5)]
    q = seen_by(isa, work.q, 0.125)
    want = twin.attention(slow, q, work.k, work.v, sequences, layer.blocks, 0.125, window)
    got = layer.run(isa, work, sequences, list(range(5)), window=window, threads=2)
    np.testing.assert_allclose(got, want, atol=TOLERANCE[isa], rtol=0)


@pytest.mark.parametrize("isa", ISAS)
def test_rounding_costs_little(isa: str) -> None:
    """Against exact attention. Rounding q and p once costs no more than K and V lose in bfloat16."""
    work = Work.random(600, 2, 1, 64)
    exact = np.empty(work.q.shape)
    for i in range(600):
        score = np.einsum("khd,qd->qk", work.k[: i + 1].astype(np.float64), work.q[i].astype(np.float64)) / 8
        weight = np.exp(score - score.max(-1, keepdims=True))
        exact[i] = weight @ work.v[: i + 1, 0] / weight.sum(-1, keepdims=True)
    slow = twin.PagedCache(Layer(1, 64, 16, [600]).cache, 1, 64, 16)
    table = [np.arange(38, dtype=np.int32)]
    rounded = twin.attention(slow, work.q, work.k, work.v, [(0, 600, 0)], table, 0.125)
    unavoidable = np.sqrt(np.mean((rounded - exact) ** 2))
    error = np.sqrt(np.mean((solo(isa, work, 64, 600) - exact) ** 2))
    assert error < unavoidable * (1.41 if isa in ROUNDS else 1.01)


@pytest.mark.parametrize("isa", ISAS)
def test_writes_the_cache_as_the_twin_does(isa: str) -> None:
    work = Work.random(37, 4, 2, 32)
    work.k[3, 0, :4] = [1e-40, -1e-40, np.inf, 3.3895313e38]
    layer = Layer(2, 32, 32, [45])
    slow = twin.PagedCache(layer.cache.copy(), *layer.geometry)
    layer.run(isa, work, [(0, 37, 8)], [0])
    fast = twin.PagedCache(layer.cache, *layer.geometry)
    for i in range(37):
        slow.write(layer.blocks[0], 8 + i, work.k[i], work.v[i])
    for a, b in zip(fast.read(layer.blocks[0], 8, 45), slow.read(layer.blocks[0], 8, 45), strict=True):
        assert a.tobytes() == b.tobytes()
    k, v = np.empty((2, 32), np.float32), np.empty((2, 32), np.float32)
    _native.read_kv(layer.cache, 2, 32, 32, int(layer.blocks[0][1]), 5, k, v)
    assert k.tobytes() == twin.from_bf16(twin.to_bf16(work.k[29])).tobytes()
    assert v.tobytes() == twin.from_bf16(twin.to_bf16(work.v[29])).tobytes()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim"),
    [(9, 3, 64), (4, 1, 128), (14, 2, 16), (2, 2, 48), (5, 1, 80), (12, 1, 32)],
)
@pytest.mark.parametrize("window", [0, 37, 256])
def test_same_bits_however_it_is_cut(isa: str, heads: int, kv_heads: int, head_dim: int, window: int) -> None:
    rows = 290
    work = Work.random(rows, heads, kv_heads, head_dim)
    want = solo(isa, work, head_dim, rows, window=window)
    assert np.isfinite(want).all()
    for seed, chunk in enumerate([1, 7, 16, 64, 256], start=1):
        if chunk == 1 and window == 256:
            continue  # the slowest; the other windows cover it
        got = solo(isa, work, head_dim, chunk, seed=seed, window=window, threads=1 + seed % 3)
        assert got.tobytes() == want.tobytes(), f"chunks of {chunk}"
    for block_size, threads in ((32, 1), (48, 2), (64, 3)):
        got = solo(isa, work, head_dim, rows, block_size, window=window, threads=threads)
        assert got.tobytes() == want.tobytes(), f"blocks of {block_size}"


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_same_bits_in_a_batch(isa: str, threads: int) -> None:
    lengths, counts = [600, 31, 100, 513, 270, 1], [1, 1, 100, 5, 60, 1]
    works = [Work.random(length, 6, 2, 64, seed=i) for i, length in enumerate(lengths)]
    wants = [solo(isa, work, 64, len(work.q))[-count:] for work, count in zip(works, counts, strict=True)]
    layer = Layer(2, 64, 16, lengths, seed=9)
    for i, (work, length, count) in enumerate(zip(works, lengths, counts, strict=True)):
        if length > count:
            layer.run(isa, work.rows(0, length - count), [(0, length - count, 0)], [i])
    at = np.cumsum([0, *counts])
    sequences = [(int(at[i]), counts[i], lengths[i] - counts[i]) for i in range(len(counts))]
    step = Work.join([w.rows(n - c, n) for w, n, c in zip(works, lengths, counts, strict=True)])
    got = layer.run(isa, step, sequences, list(range(len(counts))), threads=threads)
    for i, want in enumerate(wants):
        assert got[at[i] : at[i + 1]].tobytes() == want.tobytes(), f"sequence {i}"


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("window", [0, 1000])
def test_long_decode_has_the_bits_of_prefill(isa: str, window: int) -> None:
    rows, tail = 3100, 4
    work = Work.random(rows, 3, 1, 64)
    layer = Layer(1, 64, 16, [rows])
    want = layer.run(isa, work, [(0, rows, 0)], [0], window=window)[-tail:]
    for threads in (1, 2, 3):
        for i in range(rows - tail, rows):
            got = layer.run(isa, work.rows(i, i + 1), [(0, 1, i)], [0], window=window, threads=threads)
            assert got[0].tobytes() == want[i - rows + tail].tobytes()
    got = layer.run(
        isa, work.rows(rows - tail, rows), [(0, tail, rows - tail)], [0], window=window, threads=2
    )
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("rows", "good"), [(60, 21), (300, 40), (300, 285)])
@pytest.mark.parametrize("head_dim", [48, 64])
def test_rows_after_never_reach_a_row(isa: str, rows: int, good: int, head_dim: int) -> None:
    """NaN or infinite keys and values of later rows of the same prompt leave earlier rows alone."""
    work = Work.random(rows, 6, 2, head_dim)
    want = solo(isa, work, head_dim, rows)
    for bad in (np.nan, np.inf):
        work.k[good:], work.v[good:] = bad, bad
        for block_size in (16, 64):
            got = solo(isa, work, head_dim, rows, block_size)
            assert got[:good].tobytes() == want[:good].tobytes()


@pytest.mark.parametrize("isa", ISAS)
def test_rows_before_a_window_never_reach_a_row(isa: str) -> None:
    work = Work.random(300, 6, 2, 64)
    want = solo(isa, work, 64, 300, window=20)
    for bad in (np.nan, np.inf):
        work.k[:250], work.v[:250] = bad, bad
        for chunk in (1, 300):
            got = solo(isa, work, 64, chunk, 32, window=20)
            assert got[270:].tobytes() == want[270:].tobytes()


@pytest.mark.parametrize("isa", ISAS)
def test_huge_scores_do_not_overflow(isa: str) -> None:
    """Scores of thousands pick the one largest key."""
    work = Work.random(300, 2, 1, 32)
    work.q *= 1000
    got = solo(isa, work, 32, 300)
    keys, values = (twin.from_bf16(twin.to_bf16(x)) for x in (work.k, work.v))
    score = np.einsum("qhd,kd->qhk", work.q.astype(np.float64), keys[:, 0])
    score += np.triu(np.full((300, 300), -np.inf), 1)[:, None]
    top = np.sort(score, axis=-1)
    clear = np.ones(got.shape[:2], bool)
    clear[1:] = (top[..., -1] - top[..., -2])[1:] > 1000
    assert clear.mean() > 0.5
    np.testing.assert_allclose(got[clear], values[score.argmax(-1), 0][clear], rtol=1e-6)


def test_refuses_what_it_cannot_do() -> None:
    work = Work.random(2, 2, 1, 24)
    with pytest.raises(ValueError, match="head_dim that is a multiple of 16"):
        Layer(1, 24, 16, [2]).run(ISAS[0], work, [(0, 2, 0)], [0])
    work = Work.random(2, 3, 2, 16)
    with pytest.raises(ValueError, match="multiple of num_kv_heads"):
        Layer(2, 16, 16, [2]).run(ISAS[0], work, [(0, 2, 0)], [0])
    work = Work.random(2, 2, 1, 16)
    with pytest.raises(ValueError, match="block_size that is a multiple of 16"):
        cache = np.zeros((1, _native.kv_block_elements(1, 16, 8)), np.uint16)
        flat = [x.reshape(2, -1) for x in (work.q, work.k, work.v)]
        table = np.zeros((1, 1), np.int32)
        sequences = np.array([[0, 2, 0]], np.int32)
        _native.attention(
            "generic", cache, 1, 16, 8, *flat, sequences, table, 1.0, 0, 1, np.empty((2, 32), np.float32)
        )
