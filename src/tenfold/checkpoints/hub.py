"""Models by hub id, through the optional package huggingface_hub."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tenfold.core.errors import ModelNotFoundError

_PREFERRED = ("Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "Q5_K_M", "Q6_K", "Q8_0", "BF16", "F16", "F32")
_FOLDER_FILES = ("*.json", "*.jinja", "model*.safetensors")


def fetch_from_hub(repo: str, wanted: str | None) -> Path:
    """Download a hub repository's model into huggingface_hub's own cache, if it is not there.

    A repository with config.json and safetensors gives its folder; otherwise one GGUF file is chosen.

    Args:
        repo: "org/name".
        wanted: a GGUF file of it, or a quantization such as "Q4_K_M"; None prefers 4-bit.

    Returns:
        The folder or the GGUF file.

    Raises:
        ModelNotFoundError: huggingface_hub is not installed, the hub cannot be reached and the cache lacks
            the model, or the repository has nothing that fits.
    """
    try:
        hub: Any = importlib.import_module("huggingface_hub")
    except ImportError:
        raise ModelNotFoundError(
            f"{repo!r} looks like a model hub id, but huggingface_hub is not installed; install it with "
            "`pip install huggingface_hub`, or give a GGUF file or a folder."
        ) from None
    try:
        files = list(hub.HfApi().list_repo_files(repo))
        local = False
    except Exception as error:
        # It raises its own errors, its HTTP library's and OSError; without a network its cache may do.
        files, local = _cached_files(hub, repo, error), True
    folder = (
        wanted is None and "config.json" in files and any(file.endswith(".safetensors") for file in files)
    )
    try:
        if folder:
            return Path(
                hub.snapshot_download(repo, allow_patterns=list(_FOLDER_FILES), local_files_only=local)
            )
        return Path(hub.hf_hub_download(repo, choose_gguf(repo, files, wanted), local_files_only=local))
    except ModelNotFoundError:
        raise
    except Exception as error:
        raise ModelNotFoundError(
            f"{repo!r} could not be downloaded from the model hub: {_first_line(error)}"
        ) from error


def _cached_files(hub: Any, repo: str, reason: Exception) -> list[str]:
    """Files of the repository in the package's cache."""
    try:
        folder = Path(hub.snapshot_download(repo, local_files_only=True))
    except Exception:
        raise ModelNotFoundError(
            f"{repo!r} is not on the model hub, or the hub cannot be reached: {_first_line(reason)}"
        ) from reason
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]


def choose_gguf(repo: str, files: list[str], wanted: str | None) -> str:
    """The GGUF file among `files` that `wanted` names, by file or by quantization.

    Raises:
        ModelNotFoundError: none fits, or several do.
    """
    choices = sorted(file for file in files if file.lower().endswith(".gguf"))
    if not choices:
        raise ModelNotFoundError(f"{repo!r} has neither a GGUF file nor config.json with safetensors.")
    if wanted is None:
        for quantization in _PREFERRED:
            for file in choices:
                if _has_quantization(file, quantization):
                    return file
        return choices[0]
    if wanted in choices:
        return wanted
    fitting = [file for file in choices if _has_quantization(file, wanted)]
    if len(fitting) == 1:
        return fitting[0]
    word = "several files that fit" if fitting else "no file that fits"
    raise ModelNotFoundError(
        f"{repo!r} has {word} {wanted!r}; its GGUF files: {', '.join(fitting or choices)}."
    )


def _has_quantization(file: str, quantization: str) -> bool:
    stem = file.lower().removesuffix(".gguf")
    return stem.endswith(("-" + quantization.lower(), "." + quantization.lower(), "_" + quantization.lower()))


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]
