"""From what a user types as MODEL to a path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tenfold.checkpoints.cache import is_installed, model_path
from tenfold.checkpoints.catalog import CATALOG, DEFAULT_MODEL
from tenfold.core.errors import ModelNotFoundError

if TYPE_CHECKING:
    from tenfold.checkpoints.sink import Progress

_HUB_ID = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?::(.+))?")


def resolve(model: str | None, *, progress: Progress | None = None) -> Path:
    """The GGUF file or folder that a MODEL means; a catalog model that is absent is pulled first.

    Args:
        model: a catalog name, a GGUF file, a Hugging Face folder, or a hub id "org/name" or
            "org/name:QUANTIZATION" or "org/name:FILE"; None is the catalog's default.
        progress: told how far a pull is.

    Raises:
        ModelNotFoundError: it is none of these; the message lists the choices.
        PullError: a catalog model could not be pulled.
    """
    model = DEFAULT_MODEL if model is None else model
    entry = CATALOG.get(model)
    if entry is not None:
        if is_installed(entry):
            return model_path(entry)
        # Imported here: a start with the model in place needs no network and no subprocess modules.
        from tenfold.checkpoints.pull import pull

        return pull(model, progress=progress)
    try:
        path = Path(model).expanduser()
        if path.is_file():
            return path
        if model and path.is_dir():
            return _model_in(path)
        if model and path.exists():
            raise ModelNotFoundError(
                f"{path} is neither an ordinary file nor a folder; give a GGUF file or a Hugging Face folder."
            )
    except (OSError, ValueError, RuntimeError):
        pass  # too long for a path, or with a NUL, or of an unknown user: then it is none
    hub_id = _HUB_ID.fullmatch(model)
    if hub_id is not None and (hub_id[2] is not None or not model.endswith(".gguf")):
        from tenfold.checkpoints.hub import fetch_from_hub

        return fetch_from_hub(hub_id[1], hub_id[2])
    raise _not_found(model)


def _model_in(folder: Path) -> Path:
    """The folder itself when it is a Hugging Face one, or the only GGUF file in it."""
    if (folder / "config.json").exists():
        return folder
    files = sorted(folder.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    if not files:
        raise ModelNotFoundError(f"The folder {folder} has neither a config.json nor a GGUF file.")
    names = ", ".join(file.name for file in files[:10])
    raise ModelNotFoundError(f"The folder {folder} has {len(files)} GGUF files; name one of them: {names}.")


def _not_found(model: str) -> ModelNotFoundError:
    names = ", ".join(CATALOG)
    near = _near(model)
    hint = f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
    return ModelNotFoundError(
        f"There is no model {model[:200]!r}.{hint} Give a catalog name ({names}), a GGUF file, a "
        "Hugging Face folder, "
        "or a hub id such as 'org/name' or 'org/name:Q4_K_M'."
    )


def _near(model: str) -> list[str]:
    """Catalog names, and files beside the one named, that are spelled nearly like it."""
    import difflib  # only for a message

    choices: list[str] = list(CATALOG)
    try:
        parent = Path(model).expanduser().parent
        choices += _names(parent, parent.glob("*.gguf"))
    except (OSError, ValueError, RuntimeError):
        pass
    return difflib.get_close_matches(model, choices, n=3, cutoff=0.6)


def _names(parent: Path, files: Iterable[Path]) -> list[str]:
    return [str(parent / file.name) for file, _ in zip(files, range(1000), strict=False)]
