"""The reference interpreter: against loops written out, over chunkings, batches, windows and layouts."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.models.build import build_program
from tenfold.program.op import RopeSpec
from tenfold.program.reference import Chunk, ReferenceRunner, round_bfloat16
from tests.memory_checkpoint import MemoryCheckpoint, tiny_checkpoint

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")


def runner(checkpoint: MemoryCheckpoint, **options) -> ReferenceRunner:
    return ReferenceRunner(build_program(checkpoint), checkpoint.arrays, **{"dtype": np.float64, **options})


def tokens_for(count: int, seed: int = 0, vocab: int = 50) -> list[int]:
    return np.random.default_rng(seed).integers(0, vocab, count).tolist()


def written_out(checkpoint: MemoryCheckpoint, tokens: list[int]) -> np.ndarray:
    """Logits of a one-layer llama, with a loop for every sum over positions, heads and pairs."""
    c, w = checkpoint.config, {k: v.astype(np.float64) for k, v in checkpoint.arrays.items()}

    def norm(x, weight):
        return np.array([v / math.sqrt(sum(u * u for u in x) / len(x) + c.rms_norm_eps) for v in x]) * weight

    def rotate(head, position):
        turned, half = head.copy(), c.head_dim // 2
        for i in range(half):
            angle = position * c.rope_theta ** (-2 * i / c.head_dim)
            a, b = head[i], head[i + half]
            turned[i] = a * math.cos(angle) - b * math.sin(angle)
            turned[i + half] = b * math.cos(angle) + a * math.sin(angle)
        return turned

    keys, values, logits = [], [], []
    for position, token in enumerate(tokens):
        x = w["token_embd.weight"][token].copy()
        h = norm(x, w["blk.0.attn_norm.weight"])
        q = (w["blk.0.attn_q.weight"] @ h).reshape(c.num_heads, c.head_dim)
        k = (w["blk.0.attn_k.weight"] @ h).reshape(c.num_kv_heads, c.head_dim)
        keys.append([rotate(head, position) for head in k])
        values.append((w["blk.0.attn_v.weight"] @ h).reshape(c.num_kv_heads, c.head_dim))
        heads = []
        for index in range(c.num_heads):
            shared = index * c.num_kv_heads // c.num_heads
            turned = rotate(q[index], position)
            scores = [math.exp(turned @ seen[shared] / math.sqrt(c.head_dim)) for seen in keys]
            mixed = sum(s * seen[shared] for s, seen in zip(scores, values, strict=True))
            heads.append(mixed / sum(scores))
        x += w["blk.0.attn_output.weight"] @ np.concatenate(heads)
        h = norm(x, w["blk.0.ffn_norm.weight"])
        gate, up = w["blk.0.ffn_gate.weight"] @ h, w["blk.0.ffn_up.weight"] @ h
        x += w["blk.0.ffn_down.weight"] @ (np.array([g / (1 + math.exp(-g)) for g in gate]) * up)
        logits.append(w["output.weight"] @ norm(x, w["output_norm.weight"]))
    return np.array(logits)


def test_agrees_with_loops_written_out():
    checkpoint = tiny_checkpoint("llama", num_layers=1)
    tokens = tokens_for(12)
    (logits,) = runner(checkpoint).forward([Chunk(0, 0, tokens, "all")])
    np.testing.assert_allclose(logits, written_out(checkpoint, tokens), rtol=1e-9)


def test_float32_is_near_float64():
    checkpoint = tiny_checkpoint("gemma3")
    chunk = Chunk(0, 0, tokens_for(20), "all")
    (single,) = runner(checkpoint, dtype=np.float32).forward([chunk])
    (double,) = runner(checkpoint).forward([chunk])
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(single, double, atol=1e-4 * np.abs(double).max())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_chunks_and_company_do_not_matter(architecture, data):
    run = runner(tiny_checkpoint(architecture))
    texts = [tokens_for(18, seed) for seed in range(3)]
    alone = [run.forward([Chunk(9, 0, text, "all")])[0] for text in texts]
    run.free(9)
    rows: list[list[np.ndarray]] = [[] for _ in texts]
    while any(run.length(i) < 18 for i in range(3)):
        unfinished = [i for i in range(3) if run.length(i) < 18]
        chosen = data.draw(st.permutations(unfinished))[: data.draw(st.integers(1, len(unfinished)))]
        chunks = []
        for i in chosen:
            start = run.length(i)
            count = data.draw(st.integers(1, 18 - start))
            chunks.append(Chunk(i, start, texts[i][start : start + count], "all"))
        for chunk, logits in zip(chunks, run.forward(chunks), strict=True):
            rows[chunk.seq_id].append(logits)
    for got, expected in zip(rows, alone, strict=True):
        np.testing.assert_allclose(np.concatenate(got), expected, rtol=1e-8, atol=1e-8)


def test_want_chooses_the_rows():
    run = runner(tiny_checkpoint("llama"))
    text = tokens_for(6)
    (everything,) = run.forward([Chunk(0, 0, text, "all")])
    results = run.forward([Chunk(1, 0, text, "none"), Chunk(2, 0, text), Chunk(3, 0, text, "all")])
    assert [len(result) for result in results] == [0, 1, 6]
    np.testing.assert_allclose(results[1], everything[-1:])
    np.testing.assert_allclose(results[2], everything)


def test_an_earlier_start_forgets_what_came_after():
    run = runner(tiny_checkpoint("qwen3"))
    text, other = tokens_for(10), tokens_for(10, seed=1)
    run.forward([Chunk(0, 0, text[:4] + other)])
    (again,) = run.forward([Chunk(0, 4, text[4:], "all")])
    assert run.length(0) == 10
    (alone,) = run.forward([Chunk(1, 0, text, "all")])
    np.testing.assert_allclose(again, alone[4:])


def test_a_window_hides_exactly_what_is_older():
    run = runner(tiny_checkpoint("llama", num_layers=1, sliding_window=4))
    text = tokens_for(10)

    def last(changed: int) -> np.ndarray:
        altered = [(t + 1) % 50 if i == changed else t for i, t in enumerate(text)]
        return run.forward([Chunk(0, 0, altered)])[0]

    untouched = last(-1)
    assert np.array_equal(last(5), untouched)
    assert not np.allclose(last(6), untouched)


def test_queries_are_tiled_without_a_seam(monkeypatch):
    checkpoint = tiny_checkpoint("gemma3")
    chunk = Chunk(0, 0, tokens_for(30), "all")
    (whole,) = runner(checkpoint).forward([chunk])
    monkeypatch.setattr("tenfold.program.reference._QUERY_TILE", 7)
    (tiled,) = runner(checkpoint).forward([chunk])
    np.testing.assert_allclose(tiled, whole, rtol=1e-9)


def test_interleaved_rotation_is_half_split_with_rows_reordered():
    split = tiny_checkpoint("llama")
    config, dim = split.config, split.config.head_dim
    adjacent = [i // 2 + (i % 2) * (dim // 2) for i in range(dim)]
    arrays = dict(split.arrays)
    for name, array in split.arrays.items():
        if "attn_q" in name or "attn_k" in name:
            arrays[name] = array.reshape(-1, dim, config.hidden_size)[:, adjacent].reshape(array.shape)
    interleaved = MemoryCheckpoint(msgspec.structs.replace(config, rope_interleaved=True), arrays)
    chunk = Chunk(0, 0, tokens_for(12), "all")
    np.testing.assert_allclose(runner(interleaved).forward([chunk])[0], runner(split).forward([chunk])[0])


def test_a_partial_rotation_leaves_the_rest_of_a_head():
    checkpoint = tiny_checkpoint("llama", rotary_dim=4)
    program = build_program(checkpoint)
    turned = program.ropes["rope"].inv_freq
    still = msgspec.structs.replace(program, ropes={"rope": RopeSpec(inv_freq=(0.0, 0.0))})
    padded = msgspec.structs.replace(
        program,
        ropes={"rope": RopeSpec(inv_freq=(*turned, 0.0, 0.0), interleaved=True)},
    )
    partial = msgspec.structs.replace(program, ropes={"rope": RopeSpec(inv_freq=turned, interleaved=True)})
    chunk = Chunk(0, 0, tokens_for(9), "all")
    results = [
        ReferenceRunner(p, checkpoint.arrays, dtype=np.float64).forward([chunk])[0]
        for p in (still, padded, partial)
    ]
    np.testing.assert_allclose(results[1], results[2])
    assert not np.allclose(results[0], results[2])


def test_norm_offset_and_logit_softcap():
    plain = tiny_checkpoint("llama")
    lowered = {name: a - 1 if "norm" in name else a for name, a in plain.arrays.items()}
    offset = MemoryCheckpoint(msgspec.structs.replace(plain.config, norm_offset=1.0), lowered)
    capped = MemoryCheckpoint(msgspec.structs.replace(plain.config, logit_softcap=2.0), plain.arrays)
    chunk = Chunk(0, 0, tokens_for(7), "all")
    (expected,) = runner(plain).forward([chunk])
    np.testing.assert_allclose(runner(offset).forward([chunk])[0], expected, atol=1e-5)
    np.testing.assert_allclose(runner(capped).forward([chunk])[0], 2 * np.tanh(expected / 2))


def test_bfloat16_rounds_to_nearest_even():
    # bfloat16 has 8 bits of significand: 1 + 2^-8 lies between 1 and 1 + 2^-7.
    x = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -3.14159265, 0.0, 1e-30], np.float32)
    torch_like = [1.0, 1.0, 1 + 2**-6, 1 + 2**-7, -3.140625, 0.0]
    assert round_bfloat16(x)[:6].tolist() == torch_like
    assert abs(round_bfloat16(x)[6] / 1e-30 - 1) < 2**-8


def test_a_bfloat16_cache_is_near_but_not_the_same():
    checkpoint = tiny_checkpoint("llama")
    chunk = Chunk(0, 0, tokens_for(20), "all")
    (exact,) = runner(checkpoint).forward([chunk])
    (rounded,) = runner(checkpoint, kv_bfloat16=True).forward([chunk])
    assert 0 < np.abs(rounded - exact).max() < 0.05 * np.abs(exact).max()


def test_large_activations_do_not_overflow():
    checkpoint = tiny_checkpoint("llama")
    arrays = {n: a * 1000 if "ffn_gate" in n else a for n, a in checkpoint.arrays.items()}
    loud = MemoryCheckpoint(checkpoint.config, arrays)
    (logits,) = runner(loud, dtype=np.float32).forward([Chunk(0, 0, tokens_for(8), "all")])
    assert np.isfinite(logits).all()


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([], "no chunk"),
        ([Chunk(0, 0, [])], "has no tokens"),
        ([Chunk(0, 1, [1])], "has 0 tokens; a chunk cannot start at 1"),
        ([Chunk(0, 0, [50])], "outside 0 to 49"),
        ([Chunk(0, 0, [-1])], "outside 0 to 49"),
        ([Chunk(0, 0, [1]), Chunk(0, 0, [2])], "in the batch twice"),
    ],
)
def test_batches_that_make_no_sense_are_refused(chunks, message):
    with pytest.raises(ValueError, match=message):
        runner(tiny_checkpoint("llama")).forward(chunks)


def test_a_freed_sequence_starts_anew():
    run = runner(tiny_checkpoint("llama"))
    run.forward([Chunk(4, 0, [1, 2, 3])])
    assert run.length(4) == 3
    run.free(4)
    run.free(4)
    assert run.length(4) == 0


def test_a_weight_of_another_shape_is_refused():
    checkpoint = tiny_checkpoint("llama")
    arrays = {**checkpoint.arrays, "output.weight": checkpoint.arrays["output.weight"].T}
    with pytest.raises(ValueError, match=r"'output.weight' came with shape \(24, 50\), not \(50, 24\)"):
        ReferenceRunner(build_program(checkpoint), arrays).forward([Chunk(0, 0, [1])])
