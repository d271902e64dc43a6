"""Reading the JSON files of a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tenfold.checkpoints.mapped_file import MappedFile
from tenfold.core.errors import CheckpointError

MAX_JSON_BYTES = 16 << 20


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        CheckpointError: the file is missing, over 16 MiB, or holds no JSON object.
    """
    file = MappedFile(path)
    if file.size > MAX_JSON_BYTES:
        raise CheckpointError(path, f"the file has {file.size} bytes, the limit is {MAX_JSON_BYTES}")
    try:
        value: dict[str, Any] = msgspec.json.decode(file.buffer, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(path, f"this is no valid JSON object ({error})") from None
    return value


def read_optional_object(path: Path) -> dict[str, Any]:
    """Like `read_object`, but an absent file is an empty object."""
    return read_object(path) if path.exists() else {}
