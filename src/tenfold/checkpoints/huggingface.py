"""Hugging Face folders (config.json, safetensors, tokenizer.json) as checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tenfold.checkpoints.checkpoint import ModelConfig, Tensor, TensorType, TokenizerSource
from tenfold.checkpoints.fields import Fields
from tenfold.checkpoints.hf_config import read_config
from tenfold.checkpoints.hf_names import canonical_name, is_skipped
from tenfold.checkpoints.hf_tokenizer import read_tokenizer
from tenfold.checkpoints.json_file import read_object, read_optional_object
from tenfold.checkpoints.layout import check_tensors
from tenfold.checkpoints.safetensors_file import SafetensorsFile
from tenfold.core.errors import CheckpointError

MAX_SHARDS = 4096
_DTYPES = {"F32": TensorType.F32, "F16": TensorType.F16, "BF16": TensorType.BF16}
_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "typical_p", "repetition_penalty")
_INDEX, _WHOLE = "model.safetensors.index.json", "model.safetensors"


class HuggingFaceCheckpoint:
    """A Hugging Face folder: headers parsed and checked, weights mapped.

    Args:
        path: the folder.

    Raises:
        CheckpointError: a file is missing, truncated, corrupted, hostile, or uses what is not supported.
        UnsupportedModelError: the architecture, or a feature of it, is not built.
    """

    path: Path
    name: str
    config: ModelConfig
    tensors: dict[str, Tensor]
    tokenizer: TokenizerSource
    generation_defaults: dict[str, float | int]

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.resolve().name
        fields = Fields(path / "config.json", read_object(path / "config.json"))
        self.config = read_config(fields)
        self.tensors = _map_tensors(path, self.config)
        check_tensors(path, self.config, self.tensors)
        generation_file = path / "generation_config.json"
        generation = Fields(generation_file, read_optional_object(generation_file))
        nested = fields.table("text_config")
        configs = [fields] if nested is None else [fields, nested]
        self.tokenizer = read_tokenizer(path, configs, generation, self.config.vocab_size)
        self.generation_defaults = _generation_defaults(generation)


def _map_tensors(folder: Path, config: ModelConfig) -> dict[str, Tensor]:
    """All tensors of the folder's text model by canonical name."""
    tensors: dict[str, Tensor] = {}
    for shard, expected in _shards(folder).items():
        opened = SafetensorsFile(folder / shard)
        for name in expected:
            if name not in opened.entries:
                raise CheckpointError(
                    folder / shard, f"the tensor is not in this file, where {_INDEX} says it is", tensor=name
                )
        for name in opened.entries:
            tensor = _map_tensor(opened, name, config.architecture)
            if tensor is None or (config.tie_embeddings and tensor.name == "output.weight"):
                continue
            if tensor.name in tensors:
                raise CheckpointError(
                    tensor.file, "the folder has this tensor twice", tensor=name, offset=tensor.offset
                )
            tensors[tensor.name] = tensor
    return tensors


def _map_tensor(opened: SafetensorsFile, name: str, architecture: str) -> Tensor | None:
    """One tensor under its canonical name; None for one that is not needed."""
    if is_skipped(name):
        return None
    entry = opened.entries[name]
    path = opened.file.path
    start = opened.data_start + entry.data_offsets[0]
    canonical = canonical_name(name, architecture)
    if canonical is None:
        raise CheckpointError(
            path, f"it has no place in the architecture {architecture}", tensor=name, offset=start
        )
    if entry.dtype not in _DTYPES:
        raise CheckpointError(
            path,
            f"dtype {entry.dtype} is not supported; supported: {', '.join(_DTYPES)}",
            tensor=name,
            offset=start,
        )
    if not entry.shape or 0 in entry.shape:
        raise CheckpointError(path, f"its shape {entry.shape} is empty", tensor=name, offset=start)
    end = opened.data_start + entry.data_offsets[1]
    data = opened.file.bytes[start:end]
    forget = partial(opened.file.forget, start, end)
    return Tensor(canonical, _DTYPES[entry.dtype], entry.shape, data, str(path), start, forget)


def _shards(folder: Path) -> Mapping[str, list[str]]:
    """The safetensors files of a folder, with the tensors that the index expects in each."""
    index = folder / _INDEX
    if not index.exists():
        if (folder / _WHOLE).exists():
            return {_WHOLE: []}
        pickles = sorted(folder.glob("*.bin")) + sorted(folder.glob("*.pt*"))
        if pickles:
            raise CheckpointError(
                pickles[0],
                "this is a Python pickle, which can run code when read; only safetensors is supported",
            )
        raise CheckpointError(folder, f"the folder has neither {_WHOLE} nor {_INDEX}")
    fields = Fields(index, read_object(index))
    weights = fields.values.get("weight_map")
    if not isinstance(weights, dict) or not weights:
        raise fields.error("weight_map", "must be an object of tensor names and files")
    shards: dict[str, list[str]] = {}
    for name, file in weights.items():
        if not isinstance(file, str) or not file.endswith(".safetensors") or Path(file).name != file:
            raise fields.error(
                "weight_map", f"puts {name!r:.100} into {file!r:.100}, no safetensors file of the folder"
            )
        shards.setdefault(file, []).append(name)
    if len(shards) > MAX_SHARDS:
        raise fields.error("weight_map", f"names {len(shards)} files, the limit is {MAX_SHARDS}")
    return shards


def _generation_defaults(fields: Fields) -> dict[str, float | int]:
    defaults: dict[str, float | int] = {}
    for key in _DEFAULTS:
        if fields.has(key):
            defaults[key] = fields.integer(key) if key == "top_k" else fields.number(key, high=1e3, zero=True)
    return defaults
