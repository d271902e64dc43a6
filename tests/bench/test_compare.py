"""bench/compare.py from the command line with stand-ins for the engines; the `peer` test runs a real one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import compare
from bench.entrant import PeerError, Sample, output_of
from bench.llama_cpp import PEERS, program
from bench.peers import Roster, Setting
from bench.results import FORMAT, model_facts, newest_results, write_results
from bench.scenarios import ROWS, Row
from bench.tenfold_engine import TenfoldEngine
from tests.tiny_models import write_tiny_gguf

DECODE, PREFILL = Row("tg", "decode", 16), Row("pp", "prefill", 64, depth=32)
HTTP_DETAILS = {
    "share_of_ceiling": 0.5,
    "itl_ms": {"p50": 2.0, "p99": 5.0},
    "ready_s": 0.5,
    "resident_bytes": 1000,
    "kv_bytes": 10,
}


class Fixed:
    """An entrant that is always as fast."""

    def __init__(self, engine: str, rate: float) -> None:
        self.engine = self.label = engine
        self.closed = False
        self._rate = rate

    def measure(self, row: Row) -> Sample:
        return Sample(self._rate, HTTP_DETAILS if self.engine == "tenfold" else {})

    def close(self) -> None:
        self.closed = True


def test_a_whole_run_is_written_drawn_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entrants = [Fixed("tenfold", 30.0), Fixed("llama.cpp", 10.0)]

    def roster(setting: Setting, peers: Sequence[str]) -> Roster:
        return Roster(list(entrants), list(entrants), {"vllm": "it is not here"})

    monkeypatch.setattr(compare, "make_roster", roster)
    file = write_tiny_gguf(tmp_path / "smollm2-135m-tiny.gguf", type="Q8_0")
    results = tmp_path / "results"
    assert compare.main(["--model", str(file), "--results", str(results)]) == 0
    printed = capsys.readouterr()
    assert "vLLM: not measured (it is not here)." in printed.out
    assert "tg128 5/5: llama.cpp 10.0 tokens/s" in printed.err
    assert all(entrant.closed for entrant in entrants)
    ((written, report),) = newest_results(results).values()
    assert written.with_suffix(".svg").read_text().startswith("<svg")
    assert [row["row"] for row in report["rows"]] == [row.name for row in ROWS]
    first = report["rows"][0]
    assert (first["ratio_to_best_peer"], first["share_of_ceiling"]) == (3.0, 0.5)
    assert [(target["against"], target["met"]) for target in first["targets"]] == [
        (None, True),
        ("transformers", None),
    ]
    assert len(report["checks"]) == 4 and all(check["met"] for check in report["checks"])


def test_an_interrupted_run_keeps_its_rows_but_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(Fixed):
        def measure(self, row: Row) -> Sample:
            if row.name != "tg128":
                raise KeyboardInterrupt
            return super().measure(row)

    ours = Interrupted("tenfold", 1.0)
    monkeypatch.setattr(compare, "make_roster", lambda setting, peers: Roster([ours]))
    file = write_tiny_gguf(tmp_path / "m.gguf")
    options = ["--model", str(file), "--only", "tg128", "pp512", "--results", str(tmp_path)]
    assert compare.main(options) == 1
    assert "interrupted; the rows that were whole are written" in capsys.readouterr().err
    (written,) = tmp_path.glob("*-m.json")
    assert [row["row"] for row in json.loads(written.read_text())["rows"]] == ["tg128"]
    assert newest_results(tmp_path) == {}
    assert ours.closed


def test_a_failing_program_is_said() -> None:
    with pytest.raises(PeerError, match="ended with code 3:\noh"):
        output_of(["sh", "-c", "echo oh >&2; exit 3"])
    with pytest.raises(PeerError, match=r"was killed by signal 4 \(SIGILL: .*\)\.$"):
        output_of(["sh", "-c", "echo rounding down >&2; kill -ILL $$"])
    with pytest.raises(PeerError, match=r"signal 6 \(SIGABRT: .*\):\nan assertion$"):
        output_of(["sh", "-c", "echo an assertion >&2; kill -ABRT $$"])
    with pytest.raises(PeerError, match="cannot be run"):
        output_of(["/nonexistent/program"])
    with pytest.raises(PeerError, match="took longer than 0 s"):
        output_of(["sleep", "9"], 0.05)


def test_facts_of_a_model(tmp_path: Path) -> None:
    facts = model_facts(write_tiny_gguf(tmp_path / "m.gguf", type="Q8_0"))
    assert facts["bits_per_weight"] == 8.5 and set(facts["types"]) == {"Q8_0"}
    assert facts["file"] == "m.gguf"


def test_results_are_never_written_over(tmp_path: Path) -> None:
    report = {"date": "2030-01-02T03:04:05+00:00"}
    names = [write_results(report, "m", tmp_path).name for _ in range(3)]
    assert names == ["2030-01-02-m.json", "2030-01-02-m-2.json", "2030-01-02-m-3.json"]


@pytest.mark.parametrize(("row", "what"), [(DECODE, "itl"), (PREFILL, "ttft")])
def test_tenfold_is_measured_in_a_process(
    tmp_path: Path, row: Row, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, ("src", os.environ.get("PYTHONPATH")))))
    file = write_tiny_gguf(tmp_path / "m.gguf", context=256)
    sample = TenfoldEngine(file, 1, ceilings=False).measure(row)
    assert sample.rate > 0
    latency = sample.details["latency_ms"]
    assert isinstance(latency, dict) and latency["count"] == (16 if what == "itl" else 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["--only", "x"], "there is no row"), (["--model", "/nonexistent/m.gguf"], "m.gguf")],
)
def test_what_cannot_be_compared_is_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare.main(arguments) == 1
    assert sentence in capsys.readouterr().err.lower()


@pytest.mark.peer
def test_the_real_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, ("src", os.environ.get("PYTHONPATH")))))
    try:
        program("llama-bench")
    except PeerError as missing:
        pytest.skip(str(missing))
    file = write_tiny_gguf(tmp_path / "m.gguf", type="Q8_0", context=2048)
    arguments = ["--model", str(file), "--quick", "--threads", "1", "--results", str(tmp_path), "--json"]
    arguments += ["--peers", "llama.cpp", "--only", *(row.name for row in ROWS if row.what != "http")]
    assert compare.main(arguments) == 0
    report = json.loads(capsys.readouterr().out)[0]
    labels = {"tenfold", "llama.cpp", "llama.cpp fa", "llama.cpp Q4_0", "llama.cpp Q4_0 fa"}
    for row in report["rows"]:
        assert {each["label"] for each in row["entrants"]} == labels
        assert all(each["state"] in ("measured", "once") for each in row["entrants"])
        assert row["ratio_to_best_peer"] > 0
    for made in (PEERS / "models").glob(f"m-{file.stat().st_size}-{file.stat().st_mtime_ns}-Q4_0.gguf"):
        made.unlink()


def test_the_newest_results_of_each_model_and_cpu_count(tmp_path: Path) -> None:
    def write(name: str, cpu: str, date: str) -> None:
        report = {"format": FORMAT, "quick": False, "complete": True, "model": {"file": "m.gguf"}}
        (tmp_path / f"{name}.json").write_text(json.dumps(dict(report, cpu=cpu, date=date)))

    write("old", "one CPU", "2026-11-01")
    write("new", "one CPU", "2026-12-01")
    write("other", "another", "2026-10-01")
    newest = {key: path.stem for key, (path, _) in newest_results(tmp_path).items()}
    assert newest == {("m.gguf", "one CPU"): "new", ("m.gguf", "another"): "other"}
