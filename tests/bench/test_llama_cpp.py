"""llama.cpp's commands and answers, with stand-ins for its programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.entrant import PeerError
from bench.llama_cpp import LlamaCpp, q4_0_of, wants_q4_0
from bench.scenarios import Row

DECODE, PREFILL = Row("tg", "decode", 16), Row("pp", "prefill", 64, depth=32)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TENFOLD_LLAMA_BIN", str(tmp_path))
    return tmp_path


def fake_program(folder: Path, name: str, output: str) -> None:
    """A program that writes its arguments to a file beside it, and prints `output`."""
    (folder / f"{name}.out").write_text(output)
    script = folder / name
    script.write_text('#!/bin/sh\necho "$@" >>"$0.arguments"\ncat "$0.out"\n')
    script.chmod(0o755)


def test_one_sequence_goes_to_llama_bench(programs: Path) -> None:
    fake_program(programs, "llama-bench", json.dumps([{"avg_ts": 7.0, "model_type": "tiny"}]))
    sample = LlamaCpp(Path("m.gguf"), 2, flash=True).measure(PREFILL)
    assert (sample.rate, sample.details["type"]) == (7.0, "tiny")
    asked = (programs / "llama-bench.arguments").read_text().strip()
    assert asked == "-m m.gguf -t 2 -p 64 -n 0 -d 32 -r 1 -fa 1 -o json"


def test_several_sequences_go_to_batched_bench(programs: Path) -> None:
    fake_program(programs, "llama-batched-bench", 'noise {\n{"speed_pp": 50.0, "speed_tg": 9.0}\n')
    peer = LlamaCpp(Path("m.gguf"), 2, "Q4_0", flash=False)
    assert peer.label == "llama.cpp Q4_0"
    assert peer.measure(Row("b", "decode", 16, batch=4, depth=32)).rate == 9.0
    asked = (programs / "llama-batched-bench.arguments").read_text()
    assert "-c 192 " in asked and "-npp 32 -ntg 16 -npl 4 -fa off" in asked
    with pytest.raises(PeerError, match="a prefill at a depth"):
        peer.measure(Row("b", "prefill", 16, batch=4, depth=32))


def test_a_report_that_batched_bench_loses_is_asked_for_again(programs: Path) -> None:
    script = programs / "llama-batched-bench"
    report = json.dumps({"speed_pp": 50.0, "speed_tg": 9.0})
    script.write_text(f'#!/bin/sh\n[ ! -e "$0.lost" ] || echo \'{report}\'\ntouch "$0.lost"\n')
    script.chmod(0o755)
    assert LlamaCpp(Path("m.gguf"), 2, flash=True).measure(Row("b", "decode", 16, batch=4)).rate == 9.0


@pytest.mark.parametrize(
    ("name", "row"), [("llama-bench", DECODE), ("llama-batched-bench", Row("b", "decode", 8, 2))]
)
def test_no_answer_is_said(programs: Path, name: str, row: Row) -> None:
    fake_program(programs, name, "[]")
    with pytest.raises(PeerError, match="reported"):
        LlamaCpp(Path("m.gguf"), 2, flash=True).measure(row)


def test_a_missing_peer_is_said(programs: Path) -> None:
    with pytest.raises(PeerError, match="run scripts/peers"):
        LlamaCpp(Path("m.gguf"), 2, flash=True).measure(DECODE)


def test_requantizing_happens_once(programs: Path) -> None:
    script = programs / "llama-quantize"
    script.write_text('#!/bin/sh\necho x >>"$0.calls"\ncp "$2" "$3"\n')
    script.chmod(0o755)
    file = programs / "m.gguf"
    file.write_bytes(b"weights")
    made = q4_0_of(file, programs / "made")
    assert made == q4_0_of(file, programs / "made") and made.read_bytes() == b"weights"
    assert (programs / "llama-quantize.calls").read_text() == "x\n"
    assert list((programs / "made").iterdir()) == [made]


def test_which_files_are_requantized() -> None:
    assert wants_q4_0(5.0, {"Q4_1", "Q6_K"}) and wants_q4_0(8.5, {"Q8_0"})
    assert not wants_q4_0(4.5, {"Q4_0"}) and not wants_q4_0(3.4, {"Q3_K"})
