"""Make a Hugging Face folder in bfloat16 of a GGUF file: `hf_folder.py FILE.gguf FOLDER`.

Runs in a peer's environment (torch, transformers, gguf), never in Tenfold's. The weights are the file's,
dequantized, so every engine runs the same model. FOLDER appears when it is whole.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import torch
import transformers


def convert(file: Path, folder: Path) -> None:
    """Dequantize `file` to bfloat16 and save it with its tokenizer and chat template."""
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    network = transformers.AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.bfloat16, **_dequantize(file.name)
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    if hasattr(network.config, "quantization_config"):
        del network.config.quantization_config
    try:
        network.save_pretrained(unfinished, safe_serialization=True)
        tokenizer.save_pretrained(unfinished)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _dequantize(name: str) -> dict[str, object]:
    """Newer transformers keep the GGUF blocks unless asked not to; older ones know only the other way."""
    config = getattr(transformers, "GgufConfig", None)
    return {} if config is None else {"quantization_config": config(gguf_file=name, dequantize=True)}


if __name__ == "__main__":
    transformers.utils.logging.disable_progress_bar()
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
