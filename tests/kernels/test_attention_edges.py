"""Native attention at its edges: windows around splits, every head_dim, any number of queries, nothing to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tenfold import _native
from tenfold.kernels.twins import attention as twin
from tests.attention_cases import TOLERANCE, Layer, Work, seen_by, solo
from tests.guard_pages import guarded

ISAS = _native.supported_isas()
every_isa = pytest.mark.parametrize("isa", ISAS)
WINDOWS = [1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 511, 512]


@every_isa
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(2, 1, 48), (6, 2, 64)])
def test_windows_around_the_ends_of_splits(
    isa: str, window: int, heads: int, kv_heads: int, head_dim: int
) -> None:
    rows = 530
    work = Work.random(rows, heads, kv_heads, head_dim)
    want = solo(isa, work, head_dim, rows, window=window)
    layer = Layer(kv_heads, head_dim, 16, [rows])
    for begin, end in [(0, 254), (254, 255), (255, 256), (256, 257), (257, 271), (271, 500), (500, 530)]:
        slow = twin.PagedCache(layer.cache.copy(), *layer.geometry)
        part, sequences = work.rows(begin, end), [(0, end - begin, begin)]
        got = layer.run(isa, part, sequences, [0], window=window, threads=1 + begin % 2)
        assert got.tobytes() == want[begin:end].tobytes(), begin
        if end - begin < 50:
            q = seen_by(isa, part.q, head_dim**-0.5)
            exact = twin.attention(slow, q, part.k, part.v, sequences, layer.blocks, head_dim**-0.5, window)
            np.testing.assert_allclose(got, exact, atol=TOLERANCE[isa], rtol=0)


@every_isa
@pytest.mark.parametrize("head_dim", range(16, 257, 16))
def test_every_head_dim(isa: str, head_dim: int) -> None:
    for heads, kv_heads, rows, window in ((2, 1, 1, 0), (6, 2, 40, 0), (3, 1, 40, 33)):
        work = Work.random(rows, heads, kv_heads, head_dim)
        layer = Layer(kv_heads, head_dim, 16, [rows])
        slow = twin.PagedCache(layer.cache.copy(), *layer.geometry)
        q = seen_by(isa, work.q, head_dim**-0.5)
        exact = twin.attention(slow, q, work.k, work.v, [(0, rows, 0)], layer.blocks, head_dim**-0.5, window)
        got = layer.run(isa, work, [(0, rows, 0)], [0], window=window)
        np.testing.assert_allclose(got, exact, atol=TOLERANCE[isa], rtol=0)
        if rows > 1:
            assert solo(isa, work, head_dim, 9, 32, window=window).tobytes() == got.tobytes()


@every_isa
@pytest.mark.parametrize("heads", [1, 3, 17])
def test_any_number_of_rows_at_depth(isa: str, heads: int) -> None:
    """Rows 250 to 250 + count, for every count: queries are cut into tiles in all ways."""
    start, most = 250, 67
    work = Work.random(start + most, heads, 1, 32)
    layer = Layer(1, 32, 16, [start + most])
    want = layer.run(isa, work, [(0, start + most, 0)], [0])[start:]
    for count in range(1, most + 1):
        got = layer.run(isa, work.rows(start, start + count), [(0, count, start)], [0])
        assert got.tobytes() == want[:count].tobytes(), count


@every_isa
@pytest.mark.parametrize("threads", [1, 2])
def test_nothing_to_do(isa: str, threads: int) -> None:
    """No rows, no sequences, sequences without rows: what is theirs stays as it is."""
    layer = Layer(1, 32, 16, [40, 40])
    before = layer.cache.copy()
    work = Work.random(5, 2, 1, 32)
    none = np.zeros((0, 3), np.int32)
    flat = [x.reshape(5, -1) for x in (work.q, work.k, work.v)]
    for rows, sequences in ((0, none), (5, none), (5, np.array([[2, 0, 7]], np.int32))):
        out = np.full((rows, 64), 7, np.float32)
        table = np.zeros((len(sequences), 1), np.int32)
        arrays = [np.ascontiguousarray(x[:rows]) for x in flat]
        _native.attention(isa, layer.cache, 1, 32, 16, *arrays, sequences, table, 1.0, 0, threads, out)
        assert (out == 7).all()
    assert layer.cache.tobytes() == before.tobytes()
    alone = layer.run(isa, work.rows(0, 2), [(0, 2, 0)], [0], threads=threads)
    mixed = layer.run(isa, work, [(0, 0, 3), (0, 2, 0)], [1, 0], threads=threads)
    assert mixed[:2].tobytes() == alone.tobytes()
    assert np.isnan(mixed[2:]).all()


@every_isa
def test_a_single_token_is_its_own_value(isa: str) -> None:
    for head_dim in (16, 80, 256):
        work = Work.random(1, 4, 2, head_dim)
        value = np.repeat(twin.from_bf16(twin.to_bf16(work.v)), 2, axis=1)
        np.testing.assert_allclose(solo(isa, work, head_dim, 1), value, rtol=1e-6)


@every_isa
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("head_dim", [48, 64])
def test_a_bad_sequence_leaves_its_neighbours_alone(isa: str, bad: float, head_dim: int) -> None:
    works = [Work.random(length, 6, 2, head_dim, seed=length) for length in (1, 60, 20)]
    sequences = [(0, 1, 0), (1, 60, 0), (61, 20, 0)]
    want = Layer(2, head_dim, 16, [1, 60, 20]).run(isa, Work.join(works), sequences, [0, 1, 2])
    for name in "qkv":
        step = Work.join(works)
        getattr(step, name)[11:61] = bad
        got = Layer(2, head_dim, 16, [1, 60, 20]).run(isa, step, sequences, [0, 1, 2], threads=2)
        good = [*range(11), *range(61, 81)]
        assert got[good].tobytes() == want[good].tobytes(), name
    step = Work.join(works)
    step.q[30] = bad  # a bad query is the affair of its row alone
    got = Layer(2, head_dim, 16, [1, 60, 20]).run(isa, step, sequences, [0, 1, 2])
    good = [i for i in range(81) if i != 30]
    assert got[good].tobytes() == want[good].tobytes()


@every_isa
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(1, 1, 16), (6, 2, 64), (5, 1, 80), (2, 1, 256)])
@pytest.mark.parametrize("window", [0, 17])
def test_nothing_is_touched_outside_of_arrays(
    isa: str, at_end: bool, heads: int, kv_heads: int, head_dim: int, window: int
) -> None:
    """Blocks of the cache that a sequence owns lie at its ends; the tail of the last one is nobody's."""
    rows = 277
    work = Work.random(rows, heads, kv_heads, head_dim)
    want = solo(isa, work, head_dim, rows, window=window)
    for block_size in (16, 48):
        blocks = -(-rows // block_size)
        elements = _native.kv_block_elements(kv_heads, head_dim, block_size)
        cache = guarded(np.full((blocks, elements), 0x7FC0, np.uint16), at_end)
        table = guarded(np.roll(np.arange(blocks, dtype=np.int32), 1 if at_end else 0)[None], at_end)
        for begin, end in ((0, 1), (1, 20), (20, 276), (276, 277)):
            part = work.rows(begin, end)
            arrays: list[Any] = [
                guarded(x.reshape(end - begin, -1), at_end) for x in (part.q, part.k, part.v)
            ]
            out = guarded(np.zeros((end - begin, heads * head_dim), np.float32), at_end)
            sequences = guarded(np.array([[0, end - begin, begin]], np.int32), at_end)
            _native.attention(
                isa, cache, kv_heads, head_dim, block_size, *arrays, sequences, table,
                head_dim**-0.5, window, 1, out,
            )  # fmt: skip
            assert out.tobytes() == want[begin:end].tobytes()
