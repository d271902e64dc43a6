"""What is measured, as data. A new row is a new line here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Row:
    """One case.

    Args:
        name: on the command line and in results.
        what: the rate that counts: prompt tokens a second, or output tokens a second over all sequences.
        tokens: prompt tokens (prefill) or output tokens (decode) of each sequence.
        batch: sequences at once.
        depth: tokens in each sequence's KV beforehand.
    """

    name: str
    what: Literal["prefill", "decode"]
    tokens: int
    batch: int = 1
    depth: int = 0


ROWS = (
    Row("tg128", "decode", 128),
    Row("pp512", "prefill", 512),
)

# Models measured when --models names none: catalog names or files.
MODELS = ("smollm2",)


def find_rows(names: list[str] | None, *, quick: bool = False) -> tuple[Row, ...]:
    """The rows with these names, all without names; `quick` shortens them to an eighth.

    Raises:
        ValueError: there is no such row.
    """
    known = {row.name: row for row in ROWS}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ValueError(f"There is no row {unknown[0]!r}; there are {', '.join(known)}.")
    rows = ROWS if names is None else tuple(known[name] for name in names)
    if not quick:
        return rows
    return tuple(
        Row(f"{row.name}-quick", row.what, max(8, row.tokens // 8), row.batch, row.depth // 8) for row in rows
    )
