"""The period of global layers among windowed ones."""

from __future__ import annotations

from tenfold.checkpoints.fields import Fields
from tenfold.core.errors import UnsupportedModelError


def global_every(fields: Fields, key: str, is_global: list[bool]) -> int:
    """The k for which exactly the layers k, 2k, 3k, ... (from 1) are global; 0 when none is.

    Raises:
        UnsupportedModelError: there is no such k.
    """
    if True not in is_global:
        return 0
    every = is_global.index(True) + 1
    if is_global != [(index + 1) % every == 0 for index in range(len(is_global))]:
        raise UnsupportedModelError(
            f"{fields.file}: {fields.noun} {key!r} alternates global and windowed layers without a "
            "fixed period, "
            "which is not supported"
        )
    return every
