"""Tenfold as an entrant: `tenfold bench engine` in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.entrant import LIMIT_SECONDS, PeerError, Sample, output_of
from bench.scenarios import Row

TENFOLD = (sys.executable, "-c", "from tenfold.cli.main import main; main()")
"""The command line of this tree, without relying on an installed script."""


class TenfoldEngine:
    """Tenfold with a model file.

    Each measurement goes through the engine with its scheduler and its sampling. Prompts are random, and only the
    depth that a row asks for is found in the cache, which the report checks.

    Args:
        file: the model.
        threads: compute threads.
        ceilings: measure the share of the machine's ceiling in each run (two seconds more).
    """

    engine = "tenfold"
    label = "tenfold"

    def __init__(self, file: Path, threads: int, *, ceilings: bool = True) -> None:
        self.file = file
        self._threads = threads
        self._ceilings = ceilings

    def command(self, row: Row, prompt: int, output: int, repeat: int = 1) -> list[str]:
        """The command that measures a row's batch at its depth: a prefill of `prompt` tokens, then a decode."""
        arguments = {
            "--model": str(self.file),
            "--prompt-len": prompt,
            "--output-len": output,
            "--batch": row.batch,
            "--depth": row.depth,
            "--threads": self._threads,
            "--repeat": repeat,
        }
        words = [str(word) for pair in arguments.items() for word in pair]
        ceilings = "--ceilings" if self._ceilings else "--no-ceilings"
        return [*TENFOLD, "bench", "engine", *words, ceilings, "--json"]

    def report(
        self, row: Row, prompt: int, output: int, *, repeat: int = 1, limit: float = LIMIT_SECONDS
    ) -> dict[str, Any]:
        """What `tenfold bench engine` reports of one run of at most `limit` seconds.

        Raises:
            PeerError: it fails.
        """
        report: dict[str, Any] = json.loads(output_of(self.command(row, prompt, output, repeat), limit))
        return report

    def measure(self, row: Row) -> Sample:
        """Run the row once.

        A decode of n tokens starts from one prompt token and measures the n steps after its first output.
        """
        prompt, output = (row.tokens, 1) if row.what == "prefill" else (1, row.tokens + 1)
        report = self.report(row, prompt, output)
        rate = report[f"{row.what}_tokens_per_s"]
        if rate is None:
            raise PeerError(f"tenfold measured no {row.what}.")
        names = ("isa", "threads", "weight_formats", "weight_bytes", "kv_bytes", "ceilings")
        details = {name: report[name] for name in names}
        details["share_of_ceiling"] = report[f"{row.what}_share_of_ceiling"]
        details["latency_ms"] = report["ttft_ms" if row.what == "prefill" else "itl_ms"]
        return Sample(rate, details)

    def close(self) -> None:
        """Nothing is left running."""
