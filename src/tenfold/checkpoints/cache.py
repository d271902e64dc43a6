"""The folder that pulled models live in, and which models are there.

Beside each file lies a stamp: size, modification time and sha256 at the time it was checked. A start compares
size and time instead of hashing again.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tenfold.checkpoints.catalog import CATALOG, CatalogEntry


class InstalledModel(msgspec.Struct, frozen=True):
    """A catalog model that is in the cache."""

    name: str
    path: Path
    size: int
    summary: str


class _Stamp(msgspec.Struct):
    size: int
    mtime_ns: int
    sha256: str


def cache_folder() -> Path:
    """$TENFOLD_HOME, else $XDG_CACHE_HOME/tenfold, else ~/.cache/tenfold. It need not exist."""
    if home := os.environ.get("TENFOLD_HOME"):
        return Path(home).expanduser()
    if caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(caches).expanduser() / "tenfold"
    return Path.home() / ".cache" / "tenfold"


def model_path(entry: CatalogEntry) -> Path:
    """Where an entry's file is, or will be."""
    return cache_folder() / "models" / entry.name / entry.file


def is_installed(entry: CatalogEntry) -> bool:
    """Whether the file is there, unchanged since its sha256 was checked. Reads only the stamp."""
    path = model_path(entry)
    try:
        state = path.stat()
        stamp = msgspec.json.decode(_stamp_path(path).read_bytes(), type=_Stamp)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return stamp == _Stamp(state.st_size, state.st_mtime_ns, entry.sha256)


def write_stamp(entry: CatalogEntry) -> None:
    """Record that the entry's file has the entry's sha256."""
    path = model_path(entry)
    state = path.stat()
    stamp = _Stamp(state.st_size, state.st_mtime_ns, entry.sha256)
    _stamp_path(path).write_bytes(msgspec.json.encode(stamp))


def installed_models() -> list[InstalledModel]:
    """Catalog models in the cache, by name."""
    return [
        InstalledModel(entry.name, model_path(entry), entry.size, entry.summary)
        for _, entry in sorted(CATALOG.items())
        if is_installed(entry)
    ]


def _stamp_path(path: Path) -> Path:
    return path.with_name(path.name + ".checked")
