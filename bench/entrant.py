"""Who is measured: an engine with a model file, asked for one rate at a time."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.scenarios import Row

LIMIT_SECONDS = 1800.0


class PeerError(Exception):
    """An engine could not be run; the message is a sentence."""


@dataclass(frozen=True)
class Sample:
    """One measurement.

    Args:
        rates: tokens a second by variant (settings of the engine of which the best counts).
        details: what else the engine said, kept in the results.
    """

    rates: dict[str, float]
    details: dict[str, object] = field(default_factory=dict)


class Entrant(Protocol):
    """An engine with a model file."""

    engine: str
    label: str
    file: Path

    def measure(self, row: Row) -> Sample:
        """Run the row once, after a warm-up of the engine's own.

        Raises:
            PeerError: the engine fails.
        """


def output_of(command: Sequence[str]) -> str:
    """Standard output of a program.

    Raises:
        PeerError: it fails, or takes longer than half an hour.
    """
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise PeerError(f"{command[0]} took longer than {LIMIT_SECONDS:.0f} s.") from None
    except OSError as problem:
        raise PeerError(f"{command[0]} cannot be run: {problem.strerror}.") from None
    if result.returncode != 0:
        tail = "\n".join(result.stderr.strip().splitlines()[-8:])
        raise PeerError(f"{' '.join(command)} ended with code {result.returncode}:\n{tail}")
    return result.stdout
