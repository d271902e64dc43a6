"""Log probabilities of a prompt against transformers in float32, on a real model."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from bench import fidelity_stages as stages
from bench.fidelity import log_probabilities
from tenfold import LLM, SamplingParams

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.conformance, pytest.mark.slow]

REAL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_a_real_models_prompt_is_as_likely() -> None:
    path = Path(os.environ.get("TENFOLD_TEST_MODELS", "")) / REAL
    if "TENFOLD_TEST_MODELS" not in os.environ or not path.exists():
        pytest.skip(f"TENFOLD_TEST_MODELS names no folder with {REAL}")
    _, (tokens,) = stages.tokenize(path, stages.mixed_text(stages.CHUNK * 8), 1)
    (logits,) = stages.truth(path, [tokens], 2)
    truth = log_probabilities(logits)
    params = SamplingParams(max_tokens=0, prompt_logprobs=1)
    (result,) = LLM(str(path), threads=2, kv_cache_memory_bytes=128 << 20).generate([tokens], params)
    assert result.prompt_logprobs is not None
    entries = result.prompt_logprobs[stages.FIRST :]
    expected = truth[np.arange(stages.ROWS), tokens[stages.FIRST + 1 :]]
    found = np.array([entry.logprob for entry in entries])
    # Four-bit weights are the same on both sides; what is rounded on the way costs a few hundredths.
    assert np.abs(found - expected).mean() < 0.05
    assert abs(found.mean() - expected.mean()) < 0.01
    agree = np.mean([entry.top[0][0] for entry in entries] == truth.argmax(axis=1))
    assert agree > 0.95
