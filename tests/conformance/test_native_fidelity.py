"""The native interpreter against transformers in float32: a real model, and tiny ones of every kind."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bench import fidelity_stages as stages
from bench.fidelity import compare, divergence, log_probabilities
from tenfold import _native
from tenfold.config.engine import EngineSettings
from tenfold.core.plan import ScheduledChunk, StepPlan
from tenfold.engine.model import load_model
from tests.conformance.test_reference import CASES, TOKENS
from tests.tiny_models import write_tiny_folder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.conformance

REAL = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Of the logits' deviation; rounding activations, keys and values to bfloat16 costs these random models 0.7 to 1.6 %.
LARGEST_ERROR = 0.02


@pytest.mark.slow
def test_a_real_model_keeps_its_distributions() -> None:
    """The bars of `bench/fidelity.py`, on 510 tokens."""
    path = Path(os.environ.get("TENFOLD_TEST_MODELS", "")) / REAL
    if "TENFOLD_TEST_MODELS" not in os.environ or not path.exists():
        pytest.skip(f"TENFOLD_TEST_MODELS names no folder with {REAL}")
    text = stages.mixed_text(2 * stages.CHUNK * 8)
    _, chunks = stages.tokenize(path, text, 2)
    found = compare(stages.truth(path, chunks, 2), stages.tenfold(path, chunks, 2), chunks)
    assert found["mean_kl"] <= 2e-3
    assert (
        found["top1_agreement"] >= 0.98 - 0.02
    )  # of 510 tokens; two hundredths are three standard deviations


def test_divergence_is_what_it_should_be() -> None:
    p = log_probabilities(np.log(np.array([[0.5, 0.25, 0.25], [0.9, 0.05, 0.05]], np.float32)))
    q = log_probabilities(np.log(np.array([[0.25, 0.5, 0.25], [0.9, 0.05, 0.05]], np.float32)))
    np.testing.assert_allclose(divergence(p, q), [0.25 * np.log(2), 0.0], atol=1e-6)


@pytest.mark.parametrize("name", CASES, ids=lambda name: name.replace(" ", "-").replace(",", ""))
def test_native_agrees_with_transformers(name: str, tmp_path: Path) -> None:
    architecture, config = CASES[name]
    folder = write_tiny_folder(tmp_path / "model", architecture, seed=3, dtype="bfloat16", **config)
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    network.set_attn_implementation("eager")
    tokens = np.random.default_rng(5).integers(0, network.config.vocab_size, TOKENS).tolist()
    with torch.no_grad():
        truth = network(torch.tensor([tokens])).logits[0].numpy()
    for isa in _native.supported_isas():
        guess = native_logits(folder, tokens, isa)
        error = float(np.sqrt(np.mean((guess - truth) ** 2)) / truth.std())
        assert error < LARGEST_ERROR, f"{isa}: the logits' relative error is {error:.4f}"


def native_logits(folder: Path, tokens: list[int], isa: str) -> np.ndarray:
    """Logits of all tokens: a prefill in two chunks, then a token at a time."""
    runner = load_model(folder, EngineSettings(isa=isa, threads=2, kv_cache_memory_bytes=4 << 20)).runner
    blocks = tuple(range(7, 7 + -(-len(tokens) // 16)))
    ends = [17, 60, *range(61, len(tokens) + 1)]
    parts = []
    for start, end in zip([0, *ends], ends, strict=False):
        step = StepPlan(0, (ScheduledChunk(0, start, tuple(tokens[start:end]), blocks, True),))
        parts.append(runner.logits(step, range(end - start)))
    return np.concatenate(parts)
