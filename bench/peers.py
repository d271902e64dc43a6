"""Who is set against Tenfold on a model, and why somebody is not.

TENFOLD_LLAMA_BIN, TENFOLD_VLLM_PYTHON and TENFOLD_TRANSFORMERS_PYTHON name peers that are installed elsewhere;
without them they are those of scripts/peers.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.entrant import Entrant, PeerError, output_of
from bench.llama_cpp import PEERS, LlamaCpp, program, q4_0_of, wants_q4_0
from bench.scenarios import Row
from bench.servers import LlamaServer, TenfoldServer
from bench.tenfold_engine import TenfoldEngine
from bench.worker import Worker

PEER_NAMES = ("llama.cpp", "vllm", "transformers")
WORKERS = Path(__file__).resolve().parent / "workers"


@dataclass
class Roster:
    """Who is measured.

    Args:
        engines: for rows of an engine alone, Tenfold first.
        servers: for rows over HTTP, likewise.
        absent: peers that are not measured, with the reason.
    """

    engines: list[Entrant] = field(default_factory=list)
    servers: list[Entrant] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)

    def of(self, row: Row) -> list[Entrant]:
        """Those who can be measured on the row."""
        return self.servers if row.what == "http" else self.engines

    def close(self) -> None:
        """End what they have left running."""
        for entrant in (*self.engines, *self.servers):
            entrant.close()


@dataclass(frozen=True)
class Setting:
    """What all entrants of a model are made from.

    Args:
        file: the model.
        facts: of bench.results.model_facts.
        threads: compute threads.
        rows: that are to be measured.
        ceilings: measure Tenfold's share of the ceiling too.
        say: told what takes long.
    """

    file: Path
    facts: dict[str, Any]
    threads: int
    rows: Sequence[Row]
    ceilings: bool
    say: Callable[[str], None]


def make_roster(setting: Setting, peers: Sequence[str]) -> Roster:
    """Tenfold and those of `peers` that are installed."""
    roster = Roster(
        engines=[TenfoldEngine(setting.file, setting.threads, ceilings=setting.ceilings)],
        servers=[TenfoldServer(setting.file, setting.threads, ceilings=setting.ceilings)],
    )
    # transformers before vLLM: its environment is the surer one to dequantize in.
    adders = {"llama.cpp": _add_llama_cpp, "transformers": _add_transformers, "vllm": _add_vllm}
    for name, add in adders.items():
        if name not in peers:
            roster.absent[name] = "it was not asked for"
            continue
        try:
            add(roster, setting)
        except PeerError as problem:
            roster.absent[name] = str(problem)
    return roster


def _add_llama_cpp(roster: Roster, setting: Setting) -> None:
    """The file itself and, where that has enough bits, a Q4_0 of it; with flash attention and without."""
    files = [(setting.file, "")]
    slots = max([row.batch for row in setting.rows if row.what == "http"], default=0)
    for name in ("llama-bench", "llama-server") if slots else ("llama-bench",):
        program(name)  # is it built?
    if wants_q4_0(setting.facts["bits_per_weight"], set(setting.facts["types"])):
        setting.say(f"Requantizing {setting.file.name} to Q4_0 for llama.cpp, unless that is done.")
        files.append((q4_0_of(setting.file), "Q4_0"))
    for file, name in files:
        for flash in (False, True):
            roster.engines.append(LlamaCpp(file, setting.threads, name, flash=flash))
            if slots:  # a llama.cpp for engines alone has no server
                roster.servers.append(LlamaServer(file, setting.threads, name, flash=flash, slots=slots))


def _add_vllm(roster: Roster, setting: Setting) -> None:
    python = interpreter("vllm", "TENFOLD_VLLM_PYTHON")
    folder = bf16_of(setting, python)
    rows = [row for row in setting.rows if row.what != "http"]
    # Prompt and output of the longest row; a decode starts from at least one token.
    longest = max((row.depth + row.tokens + 1 + (row.what == "decode") for row in rows), default=2)
    command = [python, str(WORKERS / "vllm_worker.py"), str(folder), "--threads", str(setting.threads)]
    command += ["--max-len", str(longest), "--seqs", str(max((row.batch for row in rows), default=1))]
    # Intel's OpenMP, which vLLM's documentation asks to be loaded first: without it prefills take half as long again.
    library = Path(python).parent.parent / "lib" / "libiomp5.so"
    environment = {"LD_PRELOAD": str(library)} if library.exists() else {}
    log = PEERS / "vllm.log"
    roster.engines.append(Worker("vllm", "vLLM bf16", command, log, environment=environment))


def _add_transformers(roster: Roster, setting: Setting) -> None:
    python = interpreter("transformers", "TENFOLD_TRANSFORMERS_PYTHON")
    folder = bf16_of(setting, python)
    command = [python, str(WORKERS / "transformers_worker.py"), str(folder)]
    command += ["--threads", str(setting.threads)]
    roster.engines.append(Worker("transformers", "transformers bf16", command, PEERS / "transformers.log"))


def interpreter(package: str, variable: str) -> str:
    """The Python of a peer's environment.

    Raises:
        PeerError: there is none, or it lacks the package.
    """
    python = os.environ.get(variable) or str(PEERS / package / "bin" / "python")
    find = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    try:
        found = subprocess.run([python, "-c", find], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        raise PeerError(
            f"{package} is not installed; run scripts/peers {package}, or set {variable}."
        ) from None
    if found.returncode != 0:
        raise PeerError(f"{python} has no {package}; run scripts/peers {package}, or set {variable}.")
    return python


def bf16_of(setting: Setting, python: str, folder: Path = PEERS / "models") -> Path:
    """The file's weights as a Hugging Face folder in bfloat16, made once.

    Raises:
        PeerError: the conversion fails.
    """
    status = setting.file.stat()
    made = folder / f"{setting.file.stem}-{status.st_size}-{status.st_mtime_ns}-bf16"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        setting.say(f"Dequantizing {setting.file.name} to bfloat16 for vLLM and transformers (once).")
        output_of([python, str(WORKERS / "hf_folder.py"), str(setting.file), str(made)], limit=1800)
    return made
