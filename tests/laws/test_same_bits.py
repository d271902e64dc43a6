"""Law 1: a request's logits and text are the same bytes whatever else runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenfold.kernels.isa import choose_isa
from tests.laws.mixes import random_mix
from tests.laws.recording import Shape
from tests.tiny_models import write_tiny_gguf

# Chunk sizes, cache on and off, threads, and how many run at once; "tight" has so few blocks that it must preempt.
SHAPES: dict[str, dict[str, object]] = {
    "chunk16": {"max_num_batched_tokens": 16, "max_num_seqs": 8, "threads": 1},
    "chunk64-two-threads": {"max_num_batched_tokens": 64, "max_num_seqs": 32, "threads": 2},
    "chunk512": {"max_num_batched_tokens": 512, "max_num_seqs": 32, "threads": 2},
    "no-cache": {
        "max_num_batched_tokens": 64,
        "max_num_seqs": 16,
        "threads": 2,
        "enable_prefix_caching": False,
    },
    "big-blocks": {"max_num_batched_tokens": 48, "max_num_seqs": 4, "threads": 2, "block_size": 48},
    "tight": {"max_num_batched_tokens": 64, "max_num_seqs": 16, "threads": 2},
}


def shapes(
    path: Path, names: tuple[str, ...], tight_tokens: int, max_model_len: int
) -> Iterator[tuple[str, Shape]]:
    """The named engine shapes over one file."""
    for name in names:
        # One instruction set for all: it is part of what bits depend on, and max_num_seqs has a say in the default.
        settings = dict(SHAPES[name], max_model_len=max_model_len, isa=choose_isa()[0])
        shape = Shape(path, kv_cache_memory_bytes=64 << 20, **settings)
        if name == "tight":
            block = shape.core.model.program.kv.bytes_per_token * 16
            shape = Shape(path, kv_cache_memory_bytes=block * (tight_tokens // 16), **settings)
        yield name, shape


def assert_same_bits(
    path: Path, mixes: int, size: int, *, longest_prompt: int, longest_output: int, max_model_len: int
) -> None:
    """Every request of every mix: solo on one thread against each shape in company."""
    solo = Shape(
        path,
        isa=choose_isa()[0],
        threads=1,
        max_num_seqs=4,
        max_num_batched_tokens=128,
        enable_prefix_caching=False,
        max_model_len=max_model_len,
        kv_cache_memory_bytes=64 << 20,
    )
    tight_tokens = 16 * -(-(longest_prompt + longest_output) // 16) + 64
    crowds = dict(shapes(path, tuple(SHAPES), tight_tokens, max_model_len))
    preempted = cached = 0
    vocab = solo.core.model.program.vocab_size
    for seed in range(mixes):
        mix = random_mix(
            seed, size=size, vocab=vocab, longest_prompt=longest_prompt, longest_output=longest_output
        )
        alone = {request.request_id: solo.run([request])[request.request_id] for request in mix}
        for name, shape in crowds.items():
            together = shape.run(mix, stagger=seed % 3)
            preempted += shape.preemptions
            cached = max(cached, shape.cached_tokens)
            for request in mix:
                trace, text = together[request.request_id]
                solo_trace, solo_text = alone[request.request_id]
                where = f"mix {seed}, shape {name}, {request.request_id}"
                assert trace.keys() == solo_trace.keys(), where
                assert text == solo_text, f"{where}: the text differs"
                assert trace == solo_trace, f"{where}: logits differ"
    assert preempted > 0, "no shape preempted anything; the test does not test preemption"
    assert cached > 0, "no shape hit the prefix cache; the test does not test it"


@pytest.mark.parametrize(
    ("architecture", "type"),
    [("llama", "Q4_0"), ("qwen2", "Q4_1"), ("qwen3", "Q8_0"), ("gemma3", "Q6_K"), ("llama", "BF16")],
)
def test_tiny_models(tmp_path: Path, architecture: str, type: str) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", architecture, type)
    assert_same_bits(path, 2, 8, longest_prompt=90, longest_output=12, max_model_len=512)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["generic", "avx2", "avx512", "amx"])
def test_fifty_mixes(tmp_path: Path, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenfold import _native

    if isa not in _native.supported_isas():
        pytest.skip(f"this CPU has no {isa}")
    monkeypatch.setenv("TENFOLD_ISA", isa)
    path = write_tiny_gguf(tmp_path / "tiny.gguf", "llama", "Q4_K")
    assert_same_bits(path, 50, 16, longest_prompt=200, longest_output=24, max_model_len=512)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"])
def test_real_models(name: str) -> None:
    folder = os.environ.get("TENFOLD_TEST_MODELS")
    if folder is None or not (Path(folder) / name).exists():
        pytest.skip(f"TENFOLD_TEST_MODELS names no folder with {name}")
    assert_same_bits(Path(folder) / name, 3, 8, longest_prompt=600, longest_output=12, max_model_len=1024)
