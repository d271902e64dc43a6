"""Printing: tables and progress for people on stderr or stdout, JSON for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import typer


def fail(sentence: str) -> int:
    """Print an error sentence on stderr; return the exit code 1."""
    typer.secho(f"tenfold: {sentence}", err=True, fg=typer.colors.RED)
    return 1


def warn(sentence: str) -> None:
    """Print a sentence on stderr that stops nothing."""
    typer.secho(f"tenfold: {sentence}", err=True, fg=typer.colors.YELLOW)


def print_json(data: Any) -> None:
    """Print data as indented JSON on stdout."""
    typer.echo(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())


def print_table(
    title: str, columns: list[str], rows: list[list[str]], *, right: tuple[int, ...] = ()
) -> None:
    """Print a table on stdout; columns whose numbers are in `right` are right-aligned."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", header_style="bold", show_header=any(columns))
    for i, column in enumerate(columns):
        # Folded, not cut: a path is of use only whole.
        table.add_column(column, justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


@contextmanager
def progress_bar(*, unit_bytes: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on stderr while the block runs; call the yielded function with (what is done, done, total)."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if unit_bytes else MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None)

        def update(label: str, done: int, total: int) -> None:
            bar.update(task, description=label, completed=done, total=total or None)

        yield update
