"""Why the data folder cannot be used."""

from __future__ import annotations

from pathlib import Path

from tenfold.server.errors import ApiError


class StorageError(ApiError):
    """The data folder cannot be read or written; it may be possible again later.

    Args:
        folder: the data folder.
        problem: what the system said.
    """

    def __init__(self, folder: Path, problem: object) -> None:
        super().__init__(
            507,
            f"The data folder {folder} cannot be used ({problem}); make room or mend it. Nothing stored is lost, and "
            "batches go on by themselves.",
            code="storage_unavailable",
        )


class FolderInUseError(ApiError):
    """Another server has the data folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            503,
            f"Another server uses the data folder {folder}; files and batches need a folder of their own (--data-dir).",
            code="data_folder_in_use",
        )
