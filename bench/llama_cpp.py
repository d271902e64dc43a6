"""llama.cpp as an entrant: llama-bench, and llama-batched-bench for several sequences.

TENFOLD_LLAMA_BIN names a folder with its programs; without it they are those that scripts/peers builds.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from bench.entrant import PeerError, Sample, output_of
from bench.scenarios import Row

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "build" / "peers"
_QUANTIZE_FROM_BITS = 4.5
_TRIES = 5


def program(name: str) -> str:
    """Path of one of llama.cpp's programs.

    Raises:
        PeerError: it is not built.
    """
    folder = os.environ.get("TENFOLD_LLAMA_BIN")
    path = (Path(folder) if folder else PEERS / "llama.cpp" / "build" / "bin") / name
    if not path.is_file():
        raise PeerError(
            f"{path} is missing; run scripts/peers, or set TENFOLD_LLAMA_BIN to a folder "
            "of llama.cpp's programs."
        )
    return str(path)


class LlamaCpp:
    """llama.cpp with a model file.

    Args:
        file: the model.
        threads: compute threads.
        name: of the file in labels: "" for the one that Tenfold runs too.
        flash: with flash attention.
    """

    engine = "llama.cpp"

    def __init__(self, file: Path, threads: int, name: str = "", *, flash: bool) -> None:
        self.file = file
        self.label = " ".join(filter(None, ("llama.cpp", name, "fa" if flash else "")))
        self._threads = threads
        self._flash = flash

    def measure(self, row: Row) -> Sample:
        """Run the row once."""
        return self._batched(row) if row.batch > 1 else self._single(row)

    def close(self) -> None:
        """Nothing is left running."""

    def single_command(self, row: Row) -> list[str]:
        """llama-bench for one sequence; it warms up by itself."""
        prompt, output = (row.tokens, 0) if row.what == "prefill" else (0, row.tokens)
        options = {"-m": self.file, "-t": self._threads, "-p": prompt, "-n": output, "-d": row.depth, "-r": 1}
        words = [str(word) for pair in options.items() for word in pair]
        return [program("llama-bench"), *words, "-fa", str(int(self._flash)), "-o", "json"]

    def batched_command(self, row: Row) -> list[str]:
        """llama-batched-bench for several sequences. Its prompts are what the row calls depth."""
        prompt = max(1, row.tokens if row.what == "prefill" else row.depth)
        output = 1 if row.what == "prefill" else row.tokens
        options = {
            "-m": self.file,
            "-t": self._threads,
            "-c": row.batch * (prompt + output),
            "-b": 2048,
            "-ub": 512,
            "-npp": prompt,
            "-ntg": output,
            "-npl": row.batch,
            "-fa": "on" if self._flash else "off",
            "--output-format": "jsonl",
        }
        return [program("llama-batched-bench"), *(str(word) for pair in options.items() for word in pair)]

    def _single(self, row: Row) -> Sample:
        runs = json.loads(output_of(self.single_command(row)))
        if len(runs) != 1:
            raise PeerError(f"llama-bench reported {len(runs)} runs where 1 was asked for.")
        return Sample(float(runs[0]["avg_ts"]), {"type": runs[0]["model_type"], "threads": self._threads})

    def _batched(self, row: Row) -> Sample:
        if row.what == "prefill" and row.depth:
            raise PeerError(f"llama-batched-bench cannot measure row {row.name}: a prefill at a depth.")
        # Its logger's thread prints the report, which is lost if the program ends first.
        for _ in range(_TRIES):
            printed = output_of(self.batched_command(row)).splitlines()
            lines = [line for line in printed if line.startswith("{")]
            if lines:
                break
        else:
            raise PeerError(f"llama-batched-bench reported nothing for row {row.name}, {_TRIES} times.")
        report = json.loads(lines[-1])
        rate = report["speed_pp" if row.what == "prefill" else "speed_tg"]
        return Sample(float(rate), {"threads": self._threads})


def wants_q4_0(bits_per_weight: float, types: set[str]) -> bool:
    """Whether the peer also gets the file as Q4_0, its quickest format: when that needs no more bits."""
    return bits_per_weight >= _QUANTIZE_FROM_BITS and types != {"Q4_0"}


def q4_0_of(file: Path, folder: Path = PEERS / "models") -> Path:
    """The file requantized to Q4_0, made once.

    Raises:
        PeerError: llama-quantize fails.
    """
    status = file.stat()
    made = folder / f"{file.stem}-{status.st_size}-{status.st_mtime_ns}-Q4_0.gguf"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = made.with_suffix(f".{os.getpid()}.part")
        output_of([program("llama-quantize"), "--allow-requantize", str(file), str(unfinished), "Q4_0"])
        unfinished.replace(made)
    return made
