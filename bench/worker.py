"""A peer engine that stays loaded: a worker script in the peer's own environment, stopped while others measure."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.entrant import LIMIT_SECONDS, PeerError, Sample, ending
from bench.scenarios import Row

_ROW_FIELDS = ("what", "tokens", "batch", "depth")


class Worker:
    """An entrant whose measurements a subprocess makes.

    It starts with the first row and lives until close(), so that a slow load is paid once. Between its rows the
    whole process group is stopped (SIGSTOP): its idle threads may otherwise spin on the CPUs of the others.

    Args:
        engine: its name.
        label: of its figures.
        command: the worker, which speaks as bench/workers/row_loop.py says.
        log: file for what it prints.
        environment: on top of this process's.
        limit: seconds that loading or a row may take.
    """

    def __init__(
        self,
        engine: str,
        label: str,
        command: Sequence[str],
        log: Path,
        *,
        environment: dict[str, str] | None = None,
        limit: float = LIMIT_SECONDS,
    ) -> None:
        self.engine = engine
        self.label = label
        self._command = list(command)
        self._log = log
        self._environment = environment or {}
        self._limit = limit
        self._process: subprocess.Popen[bytes] | None = None
        self._facts: dict[str, Any] = {}
        self._pending = b""

    def measure(self, row: Row) -> Sample:
        """Run the row once in the worker, which is loaded first if it is not."""
        process = self._process or self._start()
        self._signal(signal.SIGCONT)
        asked = {name: value for name, value in asdict(row).items() if name in _ROW_FIELDS}
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            raise self._ended() from None
        answer = self._answer()
        self._signal(signal.SIGSTOP)
        if "rate" not in answer:
            raise PeerError(f"{self.label}: {answer.get('error', 'the worker answered without a rate')}")
        return Sample(float(answer["rate"]), self._facts)

    def close(self) -> None:
        """Kill the worker and what it started."""
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._pending = b""
        with self._log.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env={**os.environ, **self._environment},
                )
            except OSError as problem:
                raise PeerError(f"{self._command[0]} cannot be run: {problem.strerror}.") from None
        answer = self._answer()
        if "ready" not in answer:
            self.close()
            raise PeerError(f"{self.label} did not load: {answer.get('error', 'no reason given')}")
        self._facts = answer["ready"]
        return self._process

    def _answer(self) -> dict[str, Any]:
        """The worker's next line.

        Raises:
            PeerError: it ends first, or is still silent at the limit; then it is ended.
        """
        assert self._process is not None and self._process.stdout is not None
        stream = self._process.stdout.fileno()
        deadline = time.monotonic() + self._limit
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                self.close()
                raise PeerError(f"{self.label} took longer than {self._limit:.0f} s.")
            piece = os.read(stream, 65536)
            if not piece:
                raise self._ended()
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> PeerError:
        """What to say of a worker that ended by itself: by which signal, or the last line that it printed."""
        process = self._process
        assert process is not None
        with suppress(subprocess.TimeoutExpired):  # it has closed its pipe, so it is ending
            process.wait(5)
        code = process.returncode
        self.close()
        if code is not None and code < 0:
            return PeerError(f"{self.label} {ending(code)}; what it printed is in {self._log}.")
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return PeerError(f"{self.label} ended: {lines[-1] if lines else 'it printed nothing'}")

    def _signal(self, number: signal.Signals) -> None:
        """To the worker's process group, or to the worker alone as long as it has not made one."""
        assert self._process is not None
        for send in (os.killpg, os.kill):
            with suppress(ProcessLookupError):
                send(self._process.pid, number)
                return
