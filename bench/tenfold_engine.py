"""Tenfold as an entrant: `tenfold bench engine` in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.entrant import PeerError, Sample, output_of
from bench.scenarios import Row

_MAIN = "from tenfold.cli.main import main; main()"


class TenfoldEngine:
    """Tenfold with a model file.

    Args:
        file: the model.
        threads: compute threads.
        ceilings: measure the share of the machine's ceiling in each run (two seconds more).
    """

    engine = "tenfold"

    def __init__(self, file: Path, threads: int, *, ceilings: bool = True) -> None:
        self.file = file
        self.label = "tenfold"
        self._threads = threads
        self._ceilings = ceilings

    def command(self, row: Row) -> list[str]:
        """The command that measures a row once.

        A decode of n tokens starts from one prompt token and measures the n steps after its first output.
        """
        prompt, output = (row.tokens, 1) if row.what == "prefill" else (1, row.tokens + 1)
        arguments = {
            "--model": str(self.file),
            "--prompt-len": prompt,
            "--output-len": output,
            "--batch": row.batch,
            "--depth": row.depth,
            "--threads": self._threads,
            "--repeat": 1,
        }
        words = [str(word) for pair in arguments.items() for word in pair]
        ceilings = "--ceilings" if self._ceilings else "--no-ceilings"
        return [sys.executable, "-c", _MAIN, "bench", "engine", *words, ceilings, "--json"]

    def measure(self, row: Row) -> Sample:
        """Run the row once."""
        report = json.loads(output_of(self.command(row)))
        rate = report[f"{row.what}_tokens_per_s"]
        if rate is None:
            raise PeerError(f"tenfold measured no {row.what}.")
        details = {
            name: report[name] for name in ("isa", "threads", "weight_formats", "weight_bytes", "ceilings")
        }
        details["share_of_ceiling"] = report[f"{row.what}_share_of_ceiling"]
        details["latency_ms"] = report["ttft_ms" if row.what == "prefill" else "itl_ms"]
        return Sample({"": rate}, details)
