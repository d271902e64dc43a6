"""What a result says about the machine and the model, and where it is written."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from tenfold import __version__
from tenfold.checkpoints.open import open_checkpoint
from tenfold.kernels.isa import choose_isa

ROOT = Path(__file__).resolve().parent.parent
FORMAT = 2
"""Of the results' fields; files of another format are left alone."""


def facts_of_machine() -> dict[str, Any]:
    """The date, this machine's class and this tree's version; nothing that names a person or a path."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "tenfold": __version__,
        "commit": _commit(),
        "cpu": _cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "isa": choose_isa()[0],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def model_facts(file: Path) -> dict[str, Any]:
    """A model file's name, size, bits a weight (over its matrices) and how many matrices have which type.

    Raises:
        CheckpointError: it is not a model file.
    """
    tensors = open_checkpoint(file).tensors.values()
    matrices = [tensor for tensor in tensors if len(tensor.shape) == 2]
    elements = sum(tensor.shape[0] * tensor.shape[1] for tensor in matrices)
    return {
        "file": file.name,
        "bytes": file.stat().st_size,
        "bits_per_weight": 8 * sum(tensor.data.nbytes for tensor in matrices) / elements,
        "types": dict(Counter(tensor.type.name for tensor in matrices)),
    }


def write_results(report: dict[str, Any], model: str, folder: Path) -> Path:
    """Write DATE-MODEL.json, with a number behind it when there is one already; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{report['date'][:10]}-{model}"
    file, number = folder / f"{stem}.json", 1
    while file.exists():
        number += 1
        file = folder / f"{stem}-{number}.json"
    file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return file


def newest_results(folder: Path) -> dict[tuple[str, str], tuple[Path, dict[str, Any]]]:
    """The newest complete results by (name of the model's file, CPU): whole rows, not a quick run."""
    newest: dict[tuple[str, str], tuple[Path, dict[str, Any]]] = {}
    for file in folder.glob("*.json"):
        report = json.loads(file.read_text(encoding="utf-8"))
        if report.get("format") != FORMAT or report["quick"] or not report["complete"]:
            continue
        key = report["model"]["file"], report["cpu"]
        if key not in newest or report["date"] > newest[key][1]["date"]:
            newest[key] = file, report
    return newest


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return result.stdout.strip()
