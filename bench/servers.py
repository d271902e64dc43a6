"""HTTP rows: a server of its own for each measurement, loaded by `tenfold bench serve`."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from bench.entrant import PeerError, Sample, output_of
from bench.llama_cpp import program
from bench.scenarios import Row
from bench.tenfold_engine import TENFOLD

READY_SECONDS = 120.0
SLOT_TOKENS = 1024
WARM_UP_TOKENS = 8
_seeds = count(1)


class Server:
    """A server with a model file; the subclasses of this tree say how it is started.

    Args:
        engine: its engine's name.
        label: of its figures.
        command: starts it; {port} in it stands for the port.
    """

    def __init__(self, engine: str, label: str, command: Sequence[str]) -> None:
        self.engine = engine
        self.label = label
        self._command = list(command)

    def measure(self, row: Row) -> Sample:
        """Start the server, warm it with a short request a client, load it, and end it."""
        with self.running() as (url, process, ready):
            self.load(url, replace(row, tokens=min(row.tokens, WARM_UP_TOKENS)), row.batch)
            report = self.load(url, row, row.requests)
            resident = resident_bytes(process.pid)
        if report["failed"] or report["tokens_counted_by"] != "usage":
            kinds = ", ".join(report["errors"]) or "the server did not count its tokens"
            raise PeerError(f"{self.label}: {report['failed']} of {row.requests} requests failed ({kinds}).")
        names = ("ttft_ms", "itl_ms", "duration_s", "prompt_tokens", "output_tokens", "cached_tokens")
        details = {name: report[name] for name in names}
        return Sample(
            report["output_tokens_per_s"], {**details, "ready_s": ready, "resident_bytes": resident}
        )

    def close(self) -> None:
        """Nothing is left running."""

    def load(self, url: str, row: Row, requests: int) -> dict[str, Any]:
        """Send `requests` streaming chats of new random prompts; return the load generator's report."""
        arguments = {
            "--url": url,
            "--concurrency": row.batch,
            "--num-requests": requests,
            "--prompt-len": row.prompt_words,
            "--output-len": row.tokens,
            "--seed": next(_seeds),
        }
        words = [str(word) for pair in arguments.items() for word in pair]
        report: dict[str, Any] = json.loads(output_of([*TENFOLD, "bench", "serve", *words, "--json"]))
        return report

    @contextmanager
    def running(self) -> Iterator[tuple[str, subprocess.Popen[bytes], float]]:
        """The running server: its URL, its process, and the seconds from start to ready.

        Raises:
            PeerError: it ends or is not ready in time.
        """
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        with tempfile.TemporaryFile() as log:
            command = [word.replace("{port}", str(port)) for word in self._command]
            begin = time.perf_counter()
            try:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            except OSError as problem:
                raise PeerError(f"{command[0]} cannot be run: {problem.strerror}.") from None
            try:
                while not is_ready(url):
                    waited = time.perf_counter() - begin
                    if process.poll() is not None or waited > READY_SECONDS:
                        log.seek(0)
                        lines = log.read().decode("utf-8", "replace").strip().splitlines()
                        raise PeerError(f"{self.label} did not start: {lines[-1] if lines else 'no reason'}")
                    time.sleep(0.02)
                yield url, process, time.perf_counter() - begin
            finally:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


class TenfoldServer(Server):
    """`tenfold serve` with its default settings.

    Args:
        file: the model.
        threads: compute threads.
        ceilings: measure the share of the machine's ceiling after each load.
    """

    def __init__(self, file: Path, threads: int, *, ceilings: bool = True) -> None:
        command = [*TENFOLD, "serve", str(file), "--port", "{port}", "--threads", str(threads)]
        super().__init__("tenfold", "tenfold", command)
        self.file = file
        self._threads = threads
        self._ceilings = ceilings

    def measure(self, row: Row) -> Sample:
        """As Server, then the least time that the load's steps can take."""
        sample = super().measure(row)
        details = dict(sample.details)
        if self._ceilings:
            prompt = round(int(str(details["prompt_tokens"])) / row.requests)
            command = [sys.executable, str(Path(__file__).with_name("http_ceiling.py")), str(self.file)]
            command += [str(n) for n in (self._threads, row.requests, row.batch, prompt, row.tokens)]
            priced = json.loads(output_of(command))
            details["ceilings"] = priced["ceilings"]
            details["kv_bytes"] = priced["kv_bytes"]
            details["share_of_ceiling"] = priced["seconds"] / float(str(details["duration_s"]))
        return Sample(sample.rate, details)


class LlamaServer(Server):
    """llama-server with a slot a client, continuous batching and no context shared between them.

    Args:
        file: the model.
        threads: compute threads.
        name: of the file in the label: "" for the one that Tenfold runs too.
        flash: with flash attention.
        slots: requests at once.

    Raises:
        PeerError: it is not built.
    """

    def __init__(self, file: Path, threads: int, name: str = "", *, flash: bool, slots: int) -> None:
        options = {
            "-m": file,
            "-t": threads,
            "-tb": threads,
            "-np": slots,
            "-c": slots * SLOT_TOKENS,
            "-fa": "on" if flash else "off",
            "--host": "127.0.0.1",
            "--port": "{port}",
        }
        label = " ".join(filter(None, ("llama-server", name, "fa" if flash else "")))
        words = [str(word) for pair in options.items() for word in pair]
        super().__init__("llama.cpp", label, [program("llama-server"), *words, "-cb"])


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_ready(url: str) -> bool:
    """Whether a server's /health answers 200."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def resident_bytes(pid: int) -> int:
    """Memory that a process holds now, in bytes; 0 where the system does not say."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    sizes = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return 1024 * int(sizes[0]) if sizes else 0
