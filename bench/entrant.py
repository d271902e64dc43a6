"""Who is measured: an engine with a model file and settings, asked for one rate at a time."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench.scenarios import Row

LIMIT_SECONDS = 300.0


class PeerError(Exception):
    """An engine could not be run; the message is a sentence."""


@dataclass(frozen=True)
class Sample:
    """One measurement.

    Args:
        rate: tokens a second.
        details: what else the engine said, kept in the results.
    """

    rate: float
    details: dict[str, object] = field(default_factory=dict)


class Entrant(Protocol):
    """An engine with a model file and one choice of settings.

    Args:
        engine: "tenfold", "llama.cpp", ...: figures of one engine are alternatives of which the best counts.
        label: of its figures.
    """

    @property
    def engine(self) -> str: ...

    @property
    def label(self) -> str: ...

    def measure(self, row: Row) -> Sample:
        """Run the row once, after a warm-up of the engine's own.

        Raises:
            PeerError: the engine fails, or takes longer than LIMIT_SECONDS.
        """
        ...

    def close(self) -> None:
        """End what it has left running."""
        ...


def output_of(command: Sequence[str], limit: float = LIMIT_SECONDS) -> str:
    """Standard output of a program.

    Raises:
        PeerError: it fails, or takes longer than `limit` seconds.
    """
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise PeerError(f"{command[0]} took longer than {limit:.0f} s.") from None
    except OSError as problem:
        raise PeerError(f"{command[0]} cannot be run: {problem.strerror}.") from None
    if result.returncode < 0 and result.returncode != -signal.SIGABRT:
        # It did not choose to end, so what it printed last is not the reason.
        raise PeerError(f"{' '.join(command)} {ending(result.returncode)}.")
    if result.returncode != 0:
        tail = "\n".join(result.stderr.strip().splitlines()[-8:])
        raise PeerError(f"{' '.join(command)} {ending(result.returncode)}:\n{tail}")
    return result.stdout


def ending(returncode: int) -> str:
    """How a process ended, for a sentence: with a code, or by which signal."""
    if returncode >= 0:
        return f"ended with code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        return f"was killed by signal {-returncode}"
    return f"was killed by signal {-returncode} ({name}: {signal.strsignal(-returncode)})"
