"""Progress on stderr: a bar on a terminal, a line a sample elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.scenarios import Row


class Screen:
    """Shows what is being measured.

    Args:
        rows: rows to come in all.
        repeats: rounds of a row.
    """

    def __init__(self, rows: int, repeats: int) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._repeats = repeats
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rounds"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=rows * repeats)
        self._rows_done = 0

    def __enter__(self) -> Screen:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, sentence: str) -> None:
        """A line that stays."""
        self._console.print(sentence, markup=False, soft_wrap=True)

    def report(self, row: Row, number: int, label: str, outcome: str) -> None:
        """A sample begins (no outcome yet), or has ended."""
        self._bar.update(
            self._task,
            description=f"{row.name}: {label}",
            completed=self._rows_done * self._repeats + number,
        )
        if outcome:
            self.say(f"  {row.name} {number + 1}/{self._repeats}: {label} {outcome}")

    def row_done(self) -> None:
        """A row has all its samples."""
        self._rows_done += 1
