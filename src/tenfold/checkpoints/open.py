"""Opening a checkpoint of whatever format a path holds."""

from __future__ import annotations

from pathlib import Path

from tenfold.checkpoints.checkpoint import Checkpoint
from tenfold.checkpoints.gguf import GgufCheckpoint
from tenfold.checkpoints.huggingface import HuggingFaceCheckpoint
from tenfold.core.errors import CheckpointError


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a GGUF file or a Hugging Face folder.

    Raises:
        CheckpointError: the file is missing, truncated, corrupted, hostile, or of an unsupported format.
        UnsupportedModelError: the architecture, or a feature of it, is not built.
    """
    if path.is_dir():
        return HuggingFaceCheckpoint(path)
    if path.suffix == ".safetensors":
        raise CheckpointError(
            path,
            "a safetensors file alone has no configuration and tokenizer; give the folder that holds them",
        )
    if path.suffix in (".bin", ".pt", ".pth", ".ckpt", ".pkl"):
        raise CheckpointError(
            path,
            "this looks like a Python pickle, which can run code when read; only GGUF and "
            "safetensors are supported",
        )
    return GgufCheckpoint(path)
