"""Folders of the user's."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """$XDG_STATE_HOME/tenfold, else ~/.local/state/tenfold. It need not exist."""
    if states := os.environ.get("XDG_STATE_HOME"):
        return Path(states).expanduser() / "tenfold"
    return Path.home() / ".local" / "state" / "tenfold"
