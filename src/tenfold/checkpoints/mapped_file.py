"""A file mapped read-only into memory."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tenfold.core.errors import CheckpointError


class MappedFile:
    """A model file, mapped read-only; nothing is read until it is looked at.

    The mapping lives as long as any array over it. A file that another process truncates while it is mapped
    ends this process (SIGBUS), as with every mapped file: replace model files by renaming, never by writing
    into them.

    Args:
        path: an ordinary file.

    Raises:
        CheckpointError: the file is missing, empty, unreadable or no ordinary file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if path.exists() and not path.is_file():
                raise CheckpointError(path, "this is not an ordinary file")
            with path.open("rb") as file:
                self.size = file.seek(0, 2)
                if self.size == 0:
                    raise CheckpointError(path, "the file is empty; fetch it again", offset=0)
                self.buffer = mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise CheckpointError(path, "there is no such file") from None
        except (OSError, ValueError) as error:
            raise CheckpointError(path, f"the file cannot be read ({error})") from error
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(self.buffer, dtype=np.uint8)

    def forget(self, start: int, stop: int) -> None:
        """Give the pages between two offsets back: they were read and will hardly be read again.

        They are read from the file anew if they are.
        """
        page = mmap.PAGESIZE
        start = -(-start // page) * page
        stop = min(stop, self.size) // page * page
        if start < stop and hasattr(mmap, "MADV_DONTNEED"):
            self.buffer.madvise(mmap.MADV_DONTNEED, start, stop - start)
