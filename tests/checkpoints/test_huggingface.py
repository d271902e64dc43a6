"""Hugging Face folders open as checkpoints; what is wrong with one is said with file, tensor and place."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tenfold.checkpoints.checkpoint import TensorType
from tenfold.checkpoints.dequantize import dequantize
from tenfold.checkpoints.hf_names import canonical_name
from tenfold.checkpoints.huggingface import HuggingFaceCheckpoint
from tenfold.core.errors import CheckpointError
from tests.checkpoints.hf_folder import CONFIGS, SIZES, tensors, write_folder, write_json


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("architecture", CONFIGS)
def test_every_architecture(tmp_path, architecture, shards):
    checkpoint = HuggingFaceCheckpoint(write_folder(tmp_path / "tiny", architecture, shards=shards))
    expected = tensors({**SIZES, **CONFIGS[architecture], "architectures": [architecture]})
    assert checkpoint.name == "tiny"
    assert len(checkpoint.tensors) == len(expected)
    for name, array in expected.items():
        tensor = checkpoint.tensors[canonical_name(name, checkpoint.config.architecture)]
        assert tensor.type == TensorType.F16
        assert tensor.shape == array.shape
        np.testing.assert_array_equal(dequantize(tensor), array.astype(np.float32))
        assert not tensor.data.flags.writeable
        assert tensor.file.endswith(".safetensors")


@pytest.fixture
def llama(tmp_path):
    return write_folder(tmp_path / "m", "LlamaForCausalLM")


def change_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")
    return folder


def test_tied_models_leave_the_head_out(llama):
    settings = json.loads((llama / "config.json").read_text())
    write_json(llama / "config.json", {**settings, "tie_word_embeddings": True})
    checkpoint = HuggingFaceCheckpoint(llama)
    assert checkpoint.config.tie_embeddings
    assert "output.weight" not in checkpoint.tensors


def test_attention_biases_and_vision_parts(llama):
    def change(weights):
        weights["model.layers.0.self_attn.o_proj.bias"] = np.zeros(64, np.float32)
        weights["vision_tower.patch.weight"] = np.zeros(3, np.int64)

    checkpoint = HuggingFaceCheckpoint(change_weights(llama, change))
    assert checkpoint.tensors["blk.0.attn_output.bias"].shape == (64,)
    assert not any("vision" in name for name in checkpoint.tensors)


@pytest.mark.parametrize(
    ("change", "problem", "tensor"),
    [
        (lambda w: w.pop("lm_head.weight"), "is missing", "output.weight"),
        (
            lambda w: w.update({"lm_head.weight": np.zeros((300, 65), np.float16)}),
            r"\(300, 65\)",
            "output.weight",
        ),
        (
            lambda w: w.update({"lm_head.weight": np.zeros((300, 64), np.float64)}),
            "F64 is not",
            "lm_head.weight",
        ),
        (lambda w: w.update({"lm_head.weight": np.zeros((300, 0), np.float16)}), "empty", "lm_head.weight"),
        (lambda w: w.update({"model.layers.0.self_attn.sinks": np.zeros(4, np.float16)}), "no place", None),
        (
            lambda w: w.update({"model.layers.7.mlp.up_proj.weight": np.zeros((96, 64), np.float16)}),
            "no place",
            None,
        ),
    ],
)
def test_wrong_weights(llama, change, problem, tensor):
    with pytest.raises(CheckpointError, match=problem) as raised:
        HuggingFaceCheckpoint(change_weights(llama, change))
    assert tensor is None or raised.value.tensor == tensor


def test_no_weights(llama):
    (llama / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"neither model.safetensors nor model.safetensors.index.json"):
        HuggingFaceCheckpoint(llama)
    (llama / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
    with pytest.raises(CheckpointError, match="only safetensors is supported"):
        HuggingFaceCheckpoint(llama)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_missing_files(llama, name):
    (llama / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        HuggingFaceCheckpoint(llama)


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"]
)
@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"\xff", b"[" * 100_000, b'{"added_tokens": 5, "architectures": ["LlamaForCausalLM"]}'],
)
def test_malformed_json(llama, name, content):
    if content.endswith(b"}") and name not in ("config.json", "tokenizer.json"):
        pytest.skip("valid for this file")
    (llama / name).write_bytes(content)
    with pytest.raises(CheckpointError) as raised:
        HuggingFaceCheckpoint(llama)
    assert name in str(raised.value)


@pytest.mark.parametrize(
    ("index", "problem"),
    [
        ({}, "'weight_map' must be an object"),
        ({"weight_map": {"a": "../x.safetensors"}}, "no safetensors file of the folder"),
        ({"weight_map": {"a": "x.bin"}}, "no safetensors file of the folder"),
        ({"weight_map": {"a": 5}}, "no safetensors file of the folder"),
        ({"weight_map": {"a": "gone.safetensors"}}, "no such file"),
        ({"weight_map": {"a": "model.safetensors"}}, "not in this file"),
    ],
)
def test_wrong_index(llama, index, problem):
    write_json(llama / "model.safetensors.index.json", index)
    with pytest.raises(CheckpointError, match=problem):
        HuggingFaceCheckpoint(llama)


def test_a_tensor_in_two_shards(tmp_path):
    folder = write_folder(tmp_path / "m", "LlamaForCausalLM", shards=2)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    places = {**index["weight_map"], "more": "more.safetensors"}
    save_file({"more": np.ones(1), "model.norm.weight": np.ones(64, np.float16)}, folder / "more.safetensors")
    write_json(folder / "model.safetensors.index.json", {"weight_map": places})
    with pytest.raises(CheckpointError, match=r"no place|twice"):
        HuggingFaceCheckpoint(folder)
    save_file({"model.norm.weight": np.ones(64, np.float16)}, folder / "more.safetensors")
    places = {**index["weight_map"], "model.norm.weight": "more.safetensors"}
    write_json(folder / "model.safetensors.index.json", {"weight_map": places})
    with pytest.raises(CheckpointError, match="twice"):
        HuggingFaceCheckpoint(folder)


def test_generation_defaults(llama):
    write_json(
        llama / "generation_config.json",
        {
            "temperature": 0.0,
            "top_p": 0.8,
            "top_k": 20,
            "repetition_penalty": 1.1,
            "do_sample": True,
            "min_p": None,
        },
    )
    assert HuggingFaceCheckpoint(llama).generation_defaults == {
        "temperature": 0.0,
        "top_p": 0.8,
        "top_k": 20,
        "repetition_penalty": 1.1,
    }
    write_json(llama / "generation_config.json", {"temperature": "hot"})
    with pytest.raises(CheckpointError, match="'temperature' must be a number"):
        HuggingFaceCheckpoint(llama)
