"""From MODEL on the command line to its path, with progress for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tenfold.checkpoints.catalog import DEFAULT_MODEL
from tenfold.cli.console import progress_bar


@contextmanager
def stage_progress(*, unit_bytes: bool = False) -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on a terminal whose label changes: call it with (what is being done, done, total)."""
    if not sys.stderr.isatty():
        yield None
        return
    with progress_bar(unit_bytes=unit_bytes) as update:
        yield update


def shown_name(model: str | None, path: Path) -> str:
    """What people are told a model is: what they typed, with its file. The name inside a file is often unreadable."""
    typed = DEFAULT_MODEL if model is None else model
    return path.name if Path(typed).exists() else f"{typed} ({path.name})"


def resolve_model(model: str | None) -> Path:
    """Find or pull a model; shows a download's progress on a terminal."""
    from tenfold.checkpoints.resolve import resolve

    with ExitStack() as screen:
        bars: list[Callable[[str, int, int], None] | None] = []

        def update(state: Any) -> None:
            # The bar appears with the first bytes: a model that is here already shows nothing.
            if not bars:
                bars.append(screen.enter_context(stage_progress(unit_bytes=True)))
            if bars[0] is not None:
                bars[0](f"Pulling {model or 'the default model'}", state.done, state.total or 0)

        return resolve(model, progress=update)
