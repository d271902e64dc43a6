"""Who is set against Tenfold, without any peer being installed."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.entrant import PeerError
from bench.peers import PEER_NAMES, Setting, bf16_of, interpreter, make_roster
from bench.scenarios import ROWS

FACTS = {"bits_per_weight": 5.0, "types": {"Q4_1": 1}}


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"weights")
    return Setting(file, FACTS, 2, ROWS, False, lambda sentence: None)


def test_peers_that_are_not_there_are_absent_with_a_reason(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENFOLD_LLAMA_BIN", str(tmp_path))
    monkeypatch.setenv("TENFOLD_VLLM_PYTHON", "/nonexistent/python")
    roster = make_roster(setting, ["llama.cpp", "vllm"])
    assert [entrant.label for entrant in roster.engines] == ["tenfold"]
    assert set(roster.absent) == set(PEER_NAMES)
    assert "run scripts/peers" in roster.absent["llama.cpp"]
    assert "TENFOLD_VLLM_PYTHON" in roster.absent["vllm"]
    assert roster.absent["transformers"] == "it was not asked for"


def test_llama_cpp_runs_both_files_with_and_without_flash_attention(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENFOLD_LLAMA_BIN", str(tmp_path))
    monkeypatch.setattr("bench.peers.q4_0_of", lambda file: file)
    for name in ("llama-bench", "llama-server"):
        (tmp_path / name).write_text("")
    roster = make_roster(setting, ["llama.cpp"])
    for row in ROWS:
        name = "llama-server" if row.what == "http" else "llama.cpp"
        labels = [entrant.label for entrant in roster.of(row)]
        assert labels == ["tenfold", name, f"{name} fa", f"{name} Q4_0", f"{name} Q4_0 fa"]


def test_llama_cpp_without_its_server_runs_the_other_rows(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENFOLD_LLAMA_BIN", str(tmp_path))
    monkeypatch.setattr("bench.peers.q4_0_of", lambda file: file)
    (tmp_path / "llama-bench").write_text("")
    assert "llama-server is missing" in make_roster(setting, ["llama.cpp"]).absent["llama.cpp"]
    alone = replace(setting, rows=[row for row in ROWS if row.what != "http"])
    assert len(make_roster(alone, ["llama.cpp"]).engines) == 5


def test_an_interpreter_must_have_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_VLLM_PYTHON", sys.executable)
    assert interpreter("json", "TENFOLD_VLLM_PYTHON") == sys.executable
    with pytest.raises(PeerError, match="has no nosuchpackage; run scripts/peers"):
        interpreter("nosuchpackage", "TENFOLD_VLLM_PYTHON")


def test_dequantizing_happens_once(setting: Setting, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$1" >>"$0.calls"\nmkdir "$3"\n')
    python.chmod(0o755)
    made = bf16_of(setting, str(python), tmp_path / "made")
    assert made == bf16_of(setting, str(python), tmp_path / "made") and made.is_dir()
    (call,) = (tmp_path / "python.calls").read_text().splitlines()
    assert Path(call).name == "hf_folder.py" and Path(call).exists()
