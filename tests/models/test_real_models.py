"""Real files through the reference interpreter: is the text sense?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tenfold.checkpoints.dequantize import dequantize
from tenfold.checkpoints.open import open_checkpoint
from tenfold.models.build import build_program
from tenfold.program.reference import Chunk, ReferenceRunner

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("file", "prompt", "expected"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", ["The", "Ġcapital", "Ġof", "ĠFrance", "Ġis"], "ĠParis"),
        ("qwen2.5-coder-0.5b-instruct.gguf", ["The", "Ġcapital", "Ġof", "ĠFrance", "Ġis"], "ĠParis"),
        ("gemma-3-270m-q4_k_m.gguf", ["<bos>", "▁one", "▁two", "▁three", "▁four", "▁five"], "▁six"),
    ],
)
def test_the_next_word_is_the_obvious_one(file, prompt, expected):
    folder = os.environ.get("TENFOLD_TEST_MODELS")
    if folder is None or not (Path(folder) / file).exists():
        pytest.skip(f"needs {file} in the folder that TENFOLD_TEST_MODELS names")
    checkpoint = open_checkpoint(Path(folder) / file)
    assert checkpoint.tokenizer.gguf is not None
    tokens = list(checkpoint.tokenizer.gguf["tokenizer.ggml.tokens"])
    runner = ReferenceRunner(build_program(checkpoint), lambda name: dequantize(checkpoint.tensors[name]))
    (logits,) = runner.forward([Chunk(0, 0, [tokens.index(word) for word in prompt])])
    assert tokens[int(logits[0].argmax())] == expected
