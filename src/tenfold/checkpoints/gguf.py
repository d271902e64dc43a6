"""GGUF files as checkpoints."""

from __future__ import annotations

from pathlib import Path

from tenfold.checkpoints.checkpoint import ModelConfig, Tensor, TokenizerSource
from tenfold.checkpoints.fields import Fields
from tenfold.checkpoints.gguf_config import read_config
from tenfold.checkpoints.gguf_metadata import read_header
from tenfold.checkpoints.gguf_tensors import map_tensors
from tenfold.checkpoints.gguf_tokenizer import read_tokenizer
from tenfold.checkpoints.layout import check_tensors
from tenfold.checkpoints.mapped_file import MappedFile

_SAMPLING = {
    "general.sampling.temp": "temperature",
    "general.sampling.top_p": "top_p",
    "general.sampling.top_k": "top_k",
    "general.sampling.min_p": "min_p",
    "general.sampling.penalty_repeat": "repetition_penalty",
}


class GgufCheckpoint:
    """A GGUF file, versions 2 and 3: header parsed and checked, weights mapped.

    Args:
        path: the file.

    Raises:
        CheckpointError: the file is truncated, corrupted, hostile, or uses what is not supported.
        UnsupportedModelError: the architecture, or a feature of it, is not built.
    """

    path: Path
    name: str
    config: ModelConfig
    tensors: dict[str, Tensor]
    tokenizer: TokenizerSource
    generation_defaults: dict[str, float | int]

    def __init__(self, path: Path) -> None:
        file = MappedFile(path)
        header = read_header(file)
        fields = Fields(path, header.metadata, header.positions, "metadata key")
        self.path = path
        self.name = fields.text("general.name") or path.stem
        self.tensors = map_tensors(file, header)
        self.config = read_config(fields, self.tensors)
        check_tensors(path, self.config, self.tensors)
        self.tokenizer = read_tokenizer(fields, self.config.vocab_size)
        self.generation_defaults = _generation_defaults(fields)


def _generation_defaults(fields: Fields) -> dict[str, float | int]:
    defaults: dict[str, float | int] = {}
    for key, name in _SAMPLING.items():
        if fields.has(key):
            defaults[name] = (
                fields.integer(key) if name == "top_k" else fields.number(key, zero=True, high=100.0)
            )
    return defaults
