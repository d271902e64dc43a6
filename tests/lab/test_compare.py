"""bench/compare.py with stand-ins for the engines; the `peer` test runs the real ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bench import compare
from bench.entrant import PeerError, Sample, output_of
from bench.llama_cpp import LlamaCpp, program, q4_0_of, wants_q4_0
from bench.results import model_facts, write_results
from bench.scenarios import ROWS, Row, find_rows
from bench.tenfold_engine import TenfoldEngine
from tests.tiny_models import write_tiny_gguf

DECODE, PREFILL = Row("tg", "decode", 16), Row("pp", "prefill", 64, depth=32)


class Scripted:
    """Gives prepared rates and notes when it was asked."""

    def __init__(self, label: str, rates: list[dict[str, float]], calls: list[str]) -> None:
        self.engine = self.label = label
        self.file = Path("m.gguf")
        self._rates = iter(rates)
        self._calls = calls

    def measure(self, row: Row) -> Sample:
        self._calls.append(self.label)
        return Sample(next(self._rates), {"share_of_ceiling": 0.5} if self.label == "tenfold" else {})


def test_rounds_are_interleaved_and_medians_compared() -> None:
    calls: list[str] = []
    ours = Scripted("tenfold", [{"": 10.0}, {"": 40.0}, {"": 30.0}], calls)
    peer = Scripted("peer", [{"a": 99.0, "b": 20.0}, {"a": 1.0, "b": 15.0}, {"a": 2.0, "b": 10.0}], calls)
    result = compare.compare_row(DECODE, [ours, peer], 3)
    assert calls == ["tenfold", "peer"] * 3
    first, second = result["entrants"]
    assert (first["median"], first["lowest"], first["highest"]) == (30.0, 10.0, 40.0)
    assert (second["variant"], second["median"], second["ratio"]) == ("b", 15.0, 2.0)
    assert second["tokens_per_s"]["a"] == [99.0, 1.0, 2.0], "the other variant is kept in the results"
    assert result["ratio_to_best_peer"] == 2.0
    cells = compare.table_rows([result])
    assert cells[0][-1] == "50%" and cells[1][5] == "2.00"


def test_rows_by_name() -> None:
    assert find_rows(None) == ROWS
    assert [row.name for row in find_rows(["pp512"])] == ["pp512"]
    assert find_rows(["pp512"], quick=True)[0].tokens == 64
    with pytest.raises(ValueError, match="no row 'x'; there are tg128"):
        find_rows(["x"])
    assert len({row.name for row in ROWS}) == len(ROWS)


def fake_program(folder: Path, name: str, output: str) -> None:
    """A program that writes its arguments to a file beside it, and prints `output`."""
    (folder / f"{name}.out").write_text(output)
    script = folder / name
    script.write_text('#!/bin/sh\necho "$@" >>"$0.arguments"\ncat "$0.out"\n')
    script.chmod(0o755)


def test_llama_bench_is_asked_for_both_attentions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        {"flash_attn": flash, "avg_ts": rate, "model_type": "tiny", "n_threads": 2}
        for flash, rate in ((0, 5.0), (1, 7.0))
    ]
    fake_program(tmp_path, "llama-bench", json.dumps(runs))
    monkeypatch.setenv("TENFOLD_LLAMA_BIN", str(tmp_path))
    sample = LlamaCpp(Path("m.gguf"), 2, "llama.cpp").measure(PREFILL)
    assert sample.rates == {"fa off": 5.0, "fa on": 7.0}
    asked = (tmp_path / "llama-bench.arguments").read_text().strip()
    assert asked == "-m m.gguf -t 2 -p 64 -n 0 -d 32 -r 1 -fa 0,1 -o json"


def test_several_sequences_go_to_batched_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_program(tmp_path, "llama-batched-bench", 'noise\n{"speed_pp": 50.0, "speed_tg": 9.0}\n')
    monkeypatch.setenv("TENFOLD_LLAMA_BIN", str(tmp_path))
    peer = LlamaCpp(Path("m.gguf"), 2, "llama.cpp")
    assert peer.measure(Row("b", "decode", 16, batch=4, depth=32)).rates == {"fa off": 9.0, "fa on": 9.0}
    asked = (tmp_path / "llama-batched-bench.arguments").read_text().splitlines()
    assert "-npp 32 -ntg 16 -npl 4 -fa off" in asked[0] and "-fa on" in asked[1]
    with pytest.raises(PeerError, match="a prefill at a depth"):
        peer.measure(Row("b", "prefill", 16, batch=4, depth=32))


def test_a_missing_peer_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_LLAMA_BIN", str(tmp_path))
    with pytest.raises(PeerError, match="run scripts/peers"):
        LlamaCpp(Path("m.gguf"), 2, "llama.cpp").measure(DECODE)


def test_a_failing_program_is_said() -> None:
    with pytest.raises(PeerError, match="ended with code 3:\noh"):
        output_of(["sh", "-c", "echo oh >&2; exit 3"])
    with pytest.raises(PeerError, match="cannot be run"):
        output_of(["/nonexistent/program"])


def test_requantizing_happens_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "llama-quantize"
    script.write_text('#!/bin/sh\necho x >>"$0.calls"\ncp "$2" "$3"\n')
    script.chmod(0o755)
    monkeypatch.setenv("TENFOLD_LLAMA_BIN", str(tmp_path))
    file = tmp_path / "m.gguf"
    file.write_bytes(b"weights")
    made = q4_0_of(file, tmp_path / "made")
    assert made == q4_0_of(file, tmp_path / "made") and made.read_bytes() == b"weights"
    assert (tmp_path / "llama-quantize.calls").read_text() == "x\n"
    assert list((tmp_path / "made").iterdir()) == [made]


def test_which_files_are_requantized() -> None:
    assert wants_q4_0(5.0, {"Q4_1", "Q6_K"}) and wants_q4_0(8.5, {"Q8_0"})
    assert not wants_q4_0(4.5, {"Q4_0"}) and not wants_q4_0(3.4, {"Q3_K"})


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
    assert sample.rates[""] > 0
    latency = sample.details["latency_ms"]
    assert isinstance(latency, dict) and latency["count"] == (16 if what == "itl" else 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["--rows", "x"], "there is no row"), (["--models", "/nonexistent/m.gguf"], "m.gguf")],
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
    file = write_tiny_gguf(tmp_path / "m.gguf", type="Q8_0", context=512)
    monkeypatch.setattr(compare, "q4_0_of", lambda file: q4_0_of(file, tmp_path / "made"))
    arguments = ["--models", str(file), "--quick", "--threads", "1", "--results", str(tmp_path), "--json"]
    assert compare.main(arguments) == 0
    report = json.loads(capsys.readouterr().out)[0]
    assert [row["row"] for row in report["rows"]] == [f"{row.name}-quick" for row in ROWS]
    for row in report["rows"]:
        assert [each["label"] for each in row["entrants"]] == ["tenfold", "llama.cpp", "llama.cpp Q4_0"]
        assert row["ratio_to_best_peer"] > 0
    assert len(list(tmp_path.glob("*-m.json"))) == 1
