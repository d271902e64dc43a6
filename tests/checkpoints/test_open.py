"""A path opens as what it holds."""

import pickle

import pytest

from tenfold.checkpoints.gguf import GgufCheckpoint
from tenfold.checkpoints.huggingface import HuggingFaceCheckpoint
from tenfold.checkpoints.open import open_checkpoint
from tenfold.core.errors import CheckpointError
from tests.checkpoints.hf_folder import write_folder
from tests.tiny_models import write_tiny_gguf


def test_both_formats(tmp_path):
    assert isinstance(open_checkpoint(write_tiny_gguf(tmp_path / "odd name")), GgufCheckpoint)
    folder = write_folder(tmp_path / "m", "Qwen3ForCausalLM")
    checkpoint = open_checkpoint(folder)
    assert isinstance(checkpoint, HuggingFaceCheckpoint)
    assert checkpoint.path == folder


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("m.safetensors", "give the folder that holds them"),
        ("m.bin", "pickle, which can run code"),
        ("m.pth", "pickle, which can run code"),
        ("m.gguf", "no GGUF file"),
    ],
)
def test_other_files(tmp_path, name, problem):
    (tmp_path / name).write_bytes(pickle.dumps([1]))
    with pytest.raises(CheckpointError, match=problem):
        open_checkpoint(tmp_path / name)


def test_nothing(tmp_path):
    with pytest.raises(CheckpointError, match="no such file"):
        open_checkpoint(tmp_path / "gone.gguf")
