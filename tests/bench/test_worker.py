"""Workers: the driver with a real process, and the loop that runs in a peer's environment."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from bench.entrant import PeerError
from bench.peers import WORKERS
from bench.scenarios import Row
from bench.worker import Worker

ROW = Row("tg", "decode", 16, batch=2, depth=3)
SCRIPT = """
import os, sys, time
sys.path.insert(0, {workers!r})
from row_loop import random_prompts, serve

def load():
    print("a library speaks")
    if "{mode}" == "unloadable":
        raise ValueError("no such model\\nreally none")

    def measure(row, number):
        if number < 0:
            return 0.0  # the warm-up
        if row.tokens == 1:
            raise RuntimeError("out of memory")
        if row.tokens == 2:
            sys.stderr.write("a last word\\n")
            sys.stderr.flush()
            os._exit(3)
        if row.tokens == 4:
            print("rounding down")
            os.kill(os.getpid(), 11)
        if row.tokens == 3:
            time.sleep(60)
        lengths = [len(prompt) for prompt in random_prompts(row, 50, number)]
        assert lengths == [max(1, row.depth)] * row.batch
        return 100.0 * row.batch + row.depth + number

    return measure, dict(pid=os.getpid())

serve(load)
"""


def worker(folder: Path, mode: str = "fine", limit: float = 30.0) -> Worker:
    script = folder / "script.py"
    script.write_text(SCRIPT.format(workers=str(WORKERS), mode=mode))
    return Worker("vllm", "vLLM", [sys.executable, str(script)], folder / "logs" / "w.log", limit=limit)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_worker_lives_over_rows_and_is_stopped_between_them(tmp_path: Path) -> None:
    peer = worker(tmp_path)
    try:
        first = peer.measure(ROW)
        pid = first.details["pid"]
        assert isinstance(pid, int)
        for _ in range(100):  # the signal takes a moment
            if state_of(pid) == "T":
                break
            time.sleep(0.02)
        assert state_of(pid) == "T"
        second = peer.measure(ROW)
        assert (first.rate, second.rate, second.details["pid"]) == (203.0, 204.0, pid)
        assert "a library speaks" in (tmp_path / "logs" / "w.log").read_text()
    finally:
        peer.close()
    assert not Path(f"/proc/{pid}").exists()
    peer.close()


def test_a_failing_row_leaves_the_worker(tmp_path: Path) -> None:
    peer = worker(tmp_path)
    try:
        with pytest.raises(PeerError, match="vLLM: RuntimeError: out of memory"):
            peer.measure(Row("tg", "decode", 1))
        assert peer.measure(ROW).rate == 204.0
    finally:
        peer.close()


def test_a_worker_that_dies_is_said_and_started_again(tmp_path: Path) -> None:
    peer = worker(tmp_path)
    try:
        with pytest.raises(PeerError, match="vLLM ended: a last word"):
            peer.measure(Row("tg", "decode", 2))
        assert peer.measure(ROW).rate == 203.0
        with pytest.raises(PeerError, match=r"vLLM was killed by signal 11 \(SIGSEGV: .*\); .*w\.log"):
            peer.measure(Row("tg", "decode", 4))
    finally:
        peer.close()


def test_a_worker_that_hangs_is_ended(tmp_path: Path) -> None:
    peer = worker(tmp_path, limit=1.5)
    with pytest.raises(PeerError, match="took longer than"):
        peer.measure(Row("tg", "decode", 3))


def test_what_does_not_load_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="did not load: ValueError: really none"):
        worker(tmp_path, "unloadable").measure(ROW)
    with pytest.raises(PeerError, match="cannot be run"):
        Worker("a", "A", ["/nonexistent/python"], tmp_path / "a.log").measure(ROW)
