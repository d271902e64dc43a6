"""Loading a model: settings that do not fit, and the size of its KV cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenfold.checkpoints.checkpoint import TokenizerSource
from tenfold.checkpoints.open import open_checkpoint
from tenfold.config.engine import EngineSettings
from tenfold.core.errors import CheckpointError, TenfoldError
from tenfold.engine import model as model_module
from tenfold.engine.memory import available_memory, total_memory
from tenfold.engine.model import load_chat_template, load_model
from tests.tiny_models import write_tiny_gguf


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf", "llama", context=1024)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", 0),
        ("threads", 5000),
        ("block_size", 24),
        ("block_size", 2**40),
        ("kv_cache_memory_bytes", 10**15),
        ("kv_cache_memory_bytes", 1),
        ("max_model_len", 2048),
        ("max_num_seqs", 513),
        ("max_waiting", 0),
    ],
)
def test_settings_that_cannot_be(tiny, name, value):
    with pytest.raises(TenfoldError, match=rf"{name} is {value}|below max_num_seqs"):
        load_model(tiny, EngineSettings(**{"threads": 1, name: value}))


@pytest.mark.parametrize(
    ("tensor", "at", "number", "words"),
    [
        (
            "blk.1.ffn_up.weight",
            34,
            b"\x00\x7e",
            "scale that is NaN or infinite at byte offset 34 of the tensor",
        ),
        ("blk.1.ffn_norm.weight", 4, b"\x00\x00\xc0\x7f", "NaN or infinite"),
    ],
)
def test_weights_that_are_no_numbers_are_named(tmp_path, tensor, at, number, words):
    path = write_tiny_gguf(tmp_path / "tiny.gguf", "llama", "Q8_0")
    offset = open_checkpoint(path).tensors[tensor].offset
    data = bytearray(path.read_bytes())
    data[offset + at : offset + at + len(number)] = number
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=words) as caught:
        load_model(path, EngineSettings(threads=1))
    assert (caught.value.file, caught.value.tensor, caught.value.offset) == (str(path), tensor, offset)


def test_a_whole_context_is_given_up_before_the_memory_is_full(tiny, monkeypatch):
    monkeypatch.setattr(model_module, "available_memory", lambda: 1 << 18)
    model = load_model(tiny, EngineSettings(threads=1))
    token = model.program.kv.bytes_per_token
    assert model.num_blocks == (1 << 18) * 3 // 4 // (token * 16)
    assert model.longest_sequence == model.num_blocks * 16 < model.max_model_len == 1024
    assert f"{model.longest_sequence} of the model's 1024 tokens" in str(model.chosen)


def test_memory_of_a_container(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemFree:  2 kB\nMemAvailable:  5 kB\n")
    assert available_memory(meminfo, tmp_path) == 5 * 1024
    (tmp_path / "memory.max").write_text("4096\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert available_memory(meminfo, tmp_path) == 3096
    assert total_memory(tmp_path) == 4096
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(meminfo, tmp_path) == 5 * 1024
    assert total_memory(tmp_path) > 1 << 20


def test_an_endless_chat_template_is_refused():
    with pytest.raises(TenfoldError, match="limit is 262144"):
        load_chat_template(TokenizerSource(), "/dev/zero")
