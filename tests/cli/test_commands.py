"""The commands as a user runs them, on a tiny model: what they print, where, and with which exit code."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenfold import __version__, cli
from tenfold.cli.main import app, main
from tenfold.kernels.isa import choose_isa
from tests.tiny_models import write_tiny_gguf

COMMANDS = [
    entry.name or entry.callback.__name__ for entry in app.registered_commands if entry.callback is not None
] + [group.name for group in app.registered_groups if group.name]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(write_tiny_gguf(tmp_path_factory.mktemp("cli") / "tiny.gguf", "llama", "Q8_0"))


@pytest.fixture
def tenfold(monkeypatch, tmp_path, capsys):
    """Run `tenfold ARGS`; returns (exit code, stdout, stderr)."""
    monkeypatch.setenv("TENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["tenfold", *args])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def test_version(tenfold):
    assert tenfold("--version") == (0, f"tenfold {__version__}\n", "")


def test_the_help_names_every_command(tenfold):
    """Each file of the room that defines a function, or a group, of its own name is a command."""
    files = sorted(Path(cli.__file__).parent.glob("*.py"))
    pattern = r"^(?:def {0}\(|app = typer\.Typer\(.*name=\"{0}\")"
    found = {f.stem for f in files if re.search(pattern.format(f.stem), f.read_text(encoding="utf-8"), re.M)}
    assert (
        {"serve", "chat", "generate", "pull", "models", "inspect", "doctor"}
        <= found - {"main"}
        <= set(COMMANDS)
    )
    shown = tenfold("--help")[1]
    assert all(re.search(rf"^  {command}  ", shown, re.M) for command in COMMANDS)


def test_no_command_shows_the_help(tenfold):
    _, out, err = tenfold()
    assert "Usage: tenfold" in out + err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(tenfold, command):
    code, out, _ = tenfold(command, "--help")
    assert code == 0
    assert f"Usage: tenfold {command}" in out


@pytest.mark.parametrize(
    "command", [(), *((name,) for name in COMMANDS), ("bench", "engine"), ("bench", "serve")]
)
def test_the_help_reads_well_on_80_columns(tenfold, monkeypatch, command):
    """No line is cut or too long, and values are N or FILE rather than a type of the library."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = tenfold(*command, "--help")[1].splitlines()[1:]
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if re.search(r"\.\.\.$|range>|list\[|^ +-.*<\w", line)]


def test_chat_reads_a_pipe(tenfold, tiny, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello\n\n/reset\nHello\n"))
    code, out, err = tenfold("chat", tiny, "-n", "3", "--temperature", "0", "-t", "1")
    assert (code, err) == (0, "")
    assert out.startswith("tiny.gguf; ")
    assert out.count("[3 tokens, ") == 2
    assert "you>" not in out


def test_generate_prints_text_and_json_of_the_same_tokens(tenfold, tiny):
    args = ("generate", "Hello", "-m", tiny, "-n", "6", "--temperature", "0", "--ignore-eos", "-t", "1")
    code, text, err = tenfold(*args)
    assert (code, err) == (0, "")
    code, printed, _ = tenfold(*args, "--json")
    (result,) = json.loads(printed)
    (output,) = result["outputs"]
    assert code == 0
    assert output["text"] + "\n" == text
    assert len(output["token_ids"]) == 6
    assert output["finish_reason"] == "length"


def test_generate_reads_standard_input(tenfold, tiny, monkeypatch):
    args = ("-m", tiny, "-n", "3", "--temperature", "0", "-t", "1", "--json")
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello"))
    assert tenfold("generate", "-", *args)[1] == tenfold("generate", "Hello", *args)[1]


def test_generate_with_a_seed_repeats_itself(tenfold, tiny):
    args = (
        "generate",
        "Hello",
        "-m",
        tiny,
        "-n",
        "12",
        "--temperature",
        "1",
        "--ignore-eos",
        "--seed",
        "7",
        "--json",
    )
    assert tenfold(*args)[1] == tenfold(*args)[1]


def test_inspect_names_ops_and_bytes(tenfold, tiny):
    code, out, _ = tenfold("inspect", tiny)
    assert code == 0
    assert "Attention" in out
    code, printed, _ = tenfold("inspect", tiny, "--json")
    assert code == 0
    assert json.loads(printed)


def test_models_lists_the_catalog(tenfold):
    code, printed, _ = tenfold("models", "--json")
    assert code == 0
    (default,) = [model for model in json.loads(printed) if model["name"] == "smollm2"]
    assert default["path"] is None
    assert "tenfold pull smollm2" in tenfold("models")[1]


def test_models_shows_paths_whole(tenfold, monkeypatch):
    path = Path("/home") / ("long/" * 40) / "model.gguf"
    found = SimpleNamespace(name="smollm2", path=path)
    monkeypatch.setattr("tenfold.checkpoints.cache.installed_models", lambda: [found])
    assert f"  {path}\n" in tenfold("models")[1]


def test_doctor_measures(tenfold):
    code, printed, _ = tenfold("doctor", "--json", "--seconds", "0.05", "-t", "1")
    report = json.loads(printed)
    assert code == 0
    assert report["isa"] in report["isas_supported"]
    assert report["threads"] == 1
    assert (
        min(report["int8_gops"], report["bf16_gflops"], report["fp32_gflops"], report["memory_read_gbs"]) > 0
    )


def test_doctor_names_the_kernels_for_few_sequences_if_they_are_others(tenfold):
    printed = tenfold("doctor", "--seconds", "0.05", "-t", "1")[1]
    assert ("for few sequences" in printed) == (choose_isa()[0] != choose_isa(max_num_seqs=1)[0])


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("generate", "x", "-m", "no-such-model"), "There is no model 'no-such-model'."),
        (("inspect", "no-such-model"), "There is no model"),
        (("serve", "no-such-model", "--port", "0"), "There is no model"),
        (("pull", "smolm2"), "Did you mean 'smollm2'?"),
        (("serve", "--config", "absent.toml"), "absent.toml cannot be read"),
        (("generate", "x", "-m", "TINY", "--max-model-len", "9999999"), "max_model_len is 9999999"),
        (("generate", "", "-m", "TINY"), "The prompt has no tokens"),
        (
            ("serve", "TINY", "--port", "0", "--block-size", "17"),
            "block_size is 17; it must be a multiple of 16.",
        ),
    ],
)
def test_an_error_is_a_sentence_and_exit_code_1(tenfold, tiny, args, sentence):
    code, out, err = tenfold(*(tiny if arg == "TINY" else arg for arg in args))
    assert code == 1
    assert out == ""
    assert err.startswith("tenfold: ")
    assert sentence in err
    assert "Traceback" not in err


def test_a_damaged_file_is_named(tenfold, tmp_path):
    path = tmp_path / "damaged.gguf"
    path.write_bytes(b"GGUF" + b"\xff" * 100)
    code, _, err = tenfold("inspect", str(path))
    assert code == 1
    assert str(path) in err.replace("\n", "")


def test_a_wrong_flag_is_exit_code_2(tenfold):
    assert tenfold("generate", "x", "--max-tokens", "0")[0] == 2
    assert tenfold("nothing")[0] == 2


def test_a_wrong_isa_is_a_sentence(tenfold, tiny, monkeypatch):
    monkeypatch.setenv("TENFOLD_ISA", "abacus")
    code, _, err = tenfold("generate", "x", "-m", tiny)
    assert code == 1
    assert "The instruction set 'abacus' (forced by TENFOLD_ISA) is not available" in err
