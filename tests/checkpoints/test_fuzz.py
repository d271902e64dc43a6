"""Thousands of mutated headers: only the errors that may come out do, within bounded memory."""

import collections
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tenfold.checkpoints import gguf_config, gguf_tokenizer, hf_config
from tenfold.checkpoints.fields import Fields
from tenfold.checkpoints.gguf_metadata import read_header
from tenfold.checkpoints.gguf_tensors import map_tensors
from tenfold.checkpoints.mapped_file import MappedFile
from tenfold.core.errors import CheckpointError, UnsupportedModelError
from tests.checkpoints.hf_folder import CONFIGS, config, write_folder, write_json
from tests.checkpoints.mutations import fuzz_file, try_folder, try_gguf
from tests.tiny_models import ARCHITECTURES, write_tiny_gguf

SEED = 20_240


JSON_VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**63,
    0.5,
    -0.5,
    1e300,
    "",
    "x",
    "linear",
    "yarn",
    [],
    [1],
    [None],
]
JSON_VALUES += [
    ["x"],
    {},
    {"x": 1},
    {"rope_type": "yarn"},
    {"rope_type": "linear", "factor": -1},
    {"rope_type": []},
]
GGUF_VALUES = [
    True,
    0,
    1,
    3,
    -1,
    2**31,
    2**64 - 1,
    0.0,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "llama",
    "yarn",
    [],
    ["x"],
]
GGUF_VALUES += [
    np.zeros(0, np.int32),
    np.ones(300, np.int32),
    np.ones(6, np.uint8),
    np.full(2, np.nan, np.float32),
]


def allowed(call):
    """Whether a call returns (true) or raises what it may (false)."""
    try:
        call()
    except (CheckpointError, UnsupportedModelError):
        return False
    return True


def run(path, header, count, attempt):
    """Fuzz a file and bound its memory; returns how often each thing happened."""
    happened = collections.Counter()
    size = path.stat().st_size
    tracemalloc.start()
    try:
        for case, what in fuzz_file(path, header, count, SEED, attempt):
            happened[what] += 1
            peak = tracemalloc.get_traced_memory()[1]
            # A string of one letter takes some 50 bytes in memory and 9 in the file.
            assert peak < 8_000_000 + 12 * size, f"case {case} of seed {SEED} took {peak} bytes"
            tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    assert sum(happened.values()) == count
    assert happened["CheckpointError"] > count // 4
    return happened


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_gguf(tmp_path, architecture):
    path = write_tiny_gguf(
        tmp_path / "m.gguf", architecture, "F16", hidden=32, heads=2, head_dim=32, intermediate=32
    )
    header = read_header(MappedFile(path)).data_start
    happened = run(path, header, 500, lambda: try_gguf(path))
    assert happened["opened"] > 0  # a changed letter in a token is no error


@pytest.mark.parametrize(
    ("name", "count"), [("model.safetensors", 600), ("config.json", 400), ("tokenizer.json", 200)]
)
def test_hugging_face_folder(tmp_path, name, count):
    folder = write_folder(tmp_path / "m", "Gemma3ForCausalLM")
    content = (folder / name).read_bytes()
    header = int.from_bytes(content[:8], "little") + 8 if name == "model.safetensors" else len(content)
    run(folder / name, header, count, lambda: try_folder(folder))


def test_index(tmp_path):
    folder = write_folder(tmp_path / "m", "LlamaForCausalLM", shards=2)
    path = folder / "model.safetensors.index.json"
    run(path, path.stat().st_size, 300, lambda: try_folder(folder))


def test_a_real_header(tmp_path):
    """SmolLM2's header, in a sparse file of the model's size."""
    models = os.environ.get("TENFOLD_TEST_MODELS")
    source = Path(models or "/", "SmolLM2-135M-Instruct.Q4_1.gguf")
    if models is None or not source.exists():
        pytest.skip(f"set TENFOLD_TEST_MODELS to a folder with {source.name}")
    start = read_header(MappedFile(source)).data_start
    with source.open("rb") as file:
        header = file.read(start)
    path = tmp_path / "m.gguf"
    path.write_bytes(header)
    size = source.stat().st_size

    def attempt():
        if path.stat().st_size > start - 300:  # not a truncated one
            os.truncate(path, size)
        return try_gguf(path)

    run(path, start, 40, attempt)


@pytest.mark.parametrize("architecture", CONFIGS)
def test_every_config_field_with_every_value(architecture):
    fields = config(architecture)
    extra = [
        "rope_parameters",
        "rope_scaling",
        "layer_types",
        "text_config",
        "partial_rotary_factor",
        "model_type",
    ]
    extra += ["max_window_layers", "use_sliding_window", "sliding_window_pattern", "final_logit_softcapping"]
    worked = [
        allowed(lambda: hf_config.read_config(Fields("f", {**fields, key: value})))  # noqa: B023
        for key in [*fields, *extra]
        for value in JSON_VALUES
    ]
    assert True in worked
    assert False in worked


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_metadata_key_with_every_value(tmp_path, architecture):
    path = write_tiny_gguf(tmp_path / "m.gguf", architecture)
    file = MappedFile(path)
    header = read_header(file)
    tensors = map_tensors(file, header)
    keys = [
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scaling.attn_factor",
        "rope.scale_linear",
        "expert_count",
    ]
    keys += [
        "rope.freq_base_swa",
        "attention.sliding_window_pattern",
        "attention.scale",
        "final_logit_softcapping",
    ]
    keys += ["rope.scaling.original_context_length", "rope.dimension_count", "attention.sliding_window"]
    names = [*header.metadata, *(f"{architecture}.{key}" for key in keys), "tokenizer.ggml.eot_token_id"]
    worked = []
    for name in names:
        for value in GGUF_VALUES:
            fields = Fields(path, {**header.metadata, name: value, "split.count": 1})
            worked.append(allowed(lambda: gguf_config.read_config(fields, tensors)))  # noqa: B023
            worked.append(allowed(lambda: gguf_tokenizer.read_tokenizer(fields, 300)))  # noqa: B023
    assert True in worked
    assert False in worked


@pytest.mark.parametrize(
    "name", ["tokenizer_config.json", "generation_config.json", "special_tokens_map.json"]
)
def test_every_side_file_field_with_every_value(tmp_path, name):
    folder = write_folder(tmp_path / "m", "Qwen2ForCausalLM")
    keys = [
        "bos_token",
        "eos_token",
        "bos_token_id",
        "eos_token_id",
        "add_bos_token",
        "chat_template",
        "top_k",
        "top_p",
    ]
    worked = []
    for key in keys:
        for value in JSON_VALUES:
            write_json(folder / name, {key: value})
            worked.append(try_folder(folder))
    assert "opened" in worked
