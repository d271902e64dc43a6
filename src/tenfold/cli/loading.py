"""From MODEL on the command line to a loaded model, with progress for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tenfold.cli.console import progress_bar, staged_bar


@contextmanager
def _shown(label: str, **options: Any) -> Iterator[Callable[[int, int], None] | None]:
    if not sys.stderr.isatty():
        yield None
        return
    with progress_bar(label, **options) as update:
        yield update


@contextmanager
def stage_progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on a terminal whose label changes: call it with (what is being done, done, total)."""
    if not sys.stderr.isatty():
        yield None
        return
    with staged_bar() as update:
        yield update


def resolve_model(model: str | None) -> Path:
    """Find or pull a model; shows a download's progress on a terminal."""
    from tenfold.checkpoints.resolve import resolve

    bar: list[Any] = []

    def update(state: Any) -> None:
        # The bar appears with the first bytes: a model that is here already shows nothing.
        if not bar:
            context = _shown(f"Pulling {model or 'the default model'}", unit_bytes=True)
            bar.extend((context, context.__enter__()))
        if bar[1] is not None:
            bar[1](state.done, state.total or 0)

    try:
        return resolve(model, progress=update)
    finally:
        if bar:
            bar[0].__exit__(None, None, None)


def sampling_params(defaults: Any, **given: Any) -> Any:
    """Sampling parameters: the model's defaults, then what was given."""
    from tenfold.core.sampling_params import SamplingParams

    known = SamplingParams.__struct_fields__
    values = {name: value for name, value in defaults.items() if name in known}
    values.update({name: value for name, value in given.items() if value is not None})
    params = SamplingParams(**values)
    params.check()
    return params
