"""What is measured, and what is to be reached, as data. A new row or target is a new line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Row:
    """One case.

    Args:
        name: on the command line and in results.
        what: the rate that counts: prompt tokens a second (prefill), output tokens a second over all sequences
            (decode), or output tokens a second of streaming chat clients (http).
        tokens: prompt tokens (prefill) or output tokens (decode, http) of each sequence.
        batch: sequences or clients at once.
        depth: tokens in each sequence's KV beforehand.
        prompt_words: words of a prompt (http).
        requests: in all (http).
        title: for people.
    """

    name: str
    what: Literal["prefill", "decode", "http"]
    tokens: int
    batch: int = 1
    depth: int = 0
    prompt_words: int = 0
    requests: int = 0
    title: str = ""


@dataclass(frozen=True)
class Target:
    """What the ratio of Tenfold's median to a peer's is to be at least.

    Args:
        ratio: the least.
        against: a peer engine's name; None is the best of all.
    """

    ratio: float
    against: str | None = None


ROWS = (
    Row("tg128", "decode", 128, title="decode, 1 stream"),
    Row("tg-b8", "decode", 64, batch=8, title="decode, batch 8"),
    Row("tg-b16", "decode", 64, batch=16, title="decode, batch 16"),
    Row("tg-b32", "decode", 64, batch=32, title="decode, batch 32"),
    Row("pp512", "prefill", 512, title="prefill, 512 tokens"),
    Row("pp2048", "prefill", 2048, title="prefill, 2048 tokens"),
    # One token less than 8192: of a context of 8192 the last place is the output's.
    Row("pp8192", "prefill", 8191, title="prefill, 8192 tokens"),
    Row("tg-d4096", "decode", 128, depth=4096, title="decode, 1 stream at depth 4096"),
    Row(
        "http16",
        "http",
        64,
        batch=16,
        prompt_words=60,
        requests=48,
        title="streaming chat over HTTP, 16 clients",
    ),
)

TARGETS: dict[str, dict[str, tuple[Target, ...]]] = {
    "SmolLM2-135M": {
        "tg128": (Target(1.5), Target(10.0, "transformers")),
        "tg-b8": (Target(2.5),),
        "tg-b16": (Target(2.5),),
        "tg-b32": (Target(3.0),),
        "pp512": (Target(2.5),),
        "pp2048": (Target(3.5),),
        "pp8192": (Target(5.0),),
        "tg-d4096": (Target(2.2),),
        "http16": (Target(2.0),),
    },
    "Qwen2.5-Coder-1.5B": {
        "tg128": (Target(1.05),),
        "tg-b8": (Target(3.0),),
        "tg-b16": (Target(3.0),),
        "tg-b32": (Target(3.0),),
        "pp512": (Target(2.5),),
        "pp2048": (Target(3.0),),
        "pp8192": (Target(4.0),),
        "tg-d4096": (Target(1.2),),
        "http16": (Target(2.5),),
    },
}
"""By the beginning of a model file's name, whatever its case; then by row."""

READY_SECONDS = {"SmolLM2-135M": 1.0, "Qwen2.5-Coder-1.5B": 4.0}
"""How long a warm start of the server may take, likewise by the beginning of a file's name."""

MODELS = ("smollm2", "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:Q4_K_M")
"""Measured when --model names none: a catalog name, and one of the Hugging Face hub."""


def targets_of(file_name: str, row: str) -> tuple[Target, ...]:
    """What a row of a model is to reach; nothing for models without targets."""
    rows = _of_model(TARGETS, file_name)
    return () if rows is None else rows.get(row, ())


def ready_limit(file_name: str) -> float | None:
    """Seconds from start to ready, at most; None for models without that target."""
    return _of_model(READY_SECONDS, file_name)


def _of_model(known: Mapping[str, _Value], file_name: str) -> _Value | None:
    begins = (begin for begin in known if file_name.casefold().startswith(begin.casefold()))
    begin = next(begins, None)
    return None if begin is None else known[begin]


def find_rows(names: Sequence[str] | None, *, quick: bool = False) -> tuple[Row, ...]:
    """The rows with these names, all without names; `quick` shortens them to an eighth.

    Raises:
        ValueError: there is no such row.
    """
    known = {row.name: row for row in ROWS}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise ValueError(f"There is no row {unknown[0]!r}; there are {', '.join(known)}.")
    rows = ROWS if names is None else tuple(known[name] for name in names)
    return tuple(shortened(row) for row in rows) if quick else rows


def shortened(row: Row) -> Row:
    """The row an eighth as long, as many sequences and clients as before."""
    return replace(
        row,
        name=f"{row.name}-quick",
        tokens=max(8, row.tokens // 8),
        depth=row.depth // 8,
        requests=row.batch if row.requests else 0,
    )
