"""HTTP rows with a stand-in for the server's and the load generator's programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.checks import checks_of
from bench.entrant import PeerError
from bench.http_ceiling import main, steps
from bench.scenarios import Row
from bench.servers import LlamaServer, Server, TenfoldServer
from tests.tiny_models import write_tiny_gguf

ROW = Row("http", "http", 8, batch=4, prompt_words=5, requests=12)
REPORT: dict[str, Any] = {
    "output_tokens_per_s": 50.0,
    "failed": 0,
    "tokens_counted_by": "usage",
    "errors": {},
    "ttft_ms": {"p50": 1.0},
    "itl_ms": {"p50": 1.0, "p99": 2.0},
    "duration_s": 2.0,
    "prompt_tokens": 120,
    "output_tokens": 96,
    "cached_tokens": 0,
}
SCRIPT = """
import http.server, sys, time
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
    def log_message(self, *words): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""


class Loaded(Server):
    """Gives a prepared report instead of making load."""

    loads: list[int]
    report: dict[str, Any]

    def load(self, url: str, row: Row, requests: int) -> dict[str, Any]:
        self.loads.append(requests)
        return self.report


def server(report: dict[str, Any], *words: str) -> Loaded:
    made = Loaded("llama.cpp", "llama-server", [sys.executable, "-c", *(words or (SCRIPT, "{port}"))])
    made.loads, made.report = [], report
    return made


def test_a_server_is_warmed_loaded_and_ended() -> None:
    made = server(REPORT)
    sample = made.measure(ROW)
    assert made.loads == [4, 12], "a request a client to warm up, then the load"
    assert sample.rate == 50.0
    ready, resident = sample.details["ready_s"], sample.details["resident_bytes"]
    assert isinstance(ready, float) and 0 < ready < 60
    assert isinstance(resident, int) and resident > 1_000_000


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"failed": 2, "errors": {"HTTP 500": 2}}, r"2 of 12 requests failed \(HTTP 500\)"),
        ({"tokens_counted_by": "chunks"}, "the server did not count its tokens"),
    ],
)
def test_a_load_that_failed_is_no_sample(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PeerError, match=sentence):
        server({**REPORT, **change}).measure(ROW)


def test_a_server_that_ends_is_said() -> None:
    with pytest.raises(PeerError, match="llama-server did not start: no memory"):
        server(REPORT, "import sys; sys.exit('no memory')").measure(ROW)


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_LLAMA_BIN", str(tmp_path))
    with pytest.raises(PeerError, match="run scripts/peers"):
        LlamaServer(Path("m.gguf"), 2, flash=True, slots=16)
    (tmp_path / "llama-server").write_text("")
    words = " ".join(LlamaServer(Path("m.gguf"), 2, "Q4_0", flash=True, slots=16)._command)
    assert "-t 2 -tb 2 -np 16 -c 16384 -fa on" in words and words.endswith("-cb")
    assert TenfoldServer(Path("m.gguf"), 2)._command[-6:] == [
        "serve",
        "m.gguf",
        "--port",
        "{port}",
        "--threads",
        "2",
    ]


def test_an_ideal_load_in_steps() -> None:
    made = list(steps(requests=5, clients=4, prompt=7, output=3))
    assert [len(step) for step in made] == [4, 4, 4, 1, 1, 1]
    assert [(chunk.start, chunk.count) for chunk in (step[0] for step in made[:3])] == [
        (0, 7),
        (7, 1),
        (8, 1),
    ]
    assert all(chunk.sample for step in made for chunk in step)


def test_a_load_is_priced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(write_tiny_gguf(tmp_path / "tiny.gguf")), "1", "5", "4", "7", "3"])
    priced = json.loads(capsys.readouterr().out)
    assert priced["seconds"] > 0 and priced["kv_bytes"] > 0 and priced["ceilings"]["bf16_gflops"] > 0


def details(**change: Any) -> dict[str, Any]:
    whole = {"itl_ms": {"p50": 2.0, "p99": 5.0}, "ready_s": 0.5, "resident_bytes": 3e8, "kv_bytes": 1e7}
    return {**whole, **change}


def results(rate: float, *samples: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"row": "tg-b16", "tenfold": 100.0},
        {"row": "http16", "tenfold": rate, "entrants": [{"details": list(samples)}]},
    ]


MODEL = {"file": "SmolLM2-135M.gguf", "bytes": 100_000_000}


def test_checks_that_hold() -> None:
    checks = checks_of(results(85.0, details()), MODEL)
    assert [check["met"] for check in checks] == [True] * 4
    assert [check["value"] for check in checks] == ["85%", "2.5", "0.50 s", "300 MB"]


def test_checks_that_do_not() -> None:
    samples = (details(), details(itl_ms={"p50": 1.0, "p99": 3.1}, ready_s=2.0, resident_bytes=326e6))
    checks = checks_of(results(84.0, *samples, samples[1]), MODEL)
    assert [check["met"] for check in checks] == [False] * 4


def test_checks_of_what_was_not_measured() -> None:
    assert checks_of(results(85.0, details())[:1], MODEL) == []
    without_batch = checks_of(results(85.0, details())[1:], {**MODEL, "file": "other.gguf"})
    assert [check["what"] for check in without_batch] == [
        "time between tokens over HTTP, p99 over p50",
        "server's resident memory",
    ]
