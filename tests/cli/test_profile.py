from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from tenfold.cli.main import app
from tenfold.cli.profile_tables import bar
from tenfold.core.errors import TenfoldError
from tests.tiny_models import write_tiny_gguf

SMALL = ["-p", "20", "-b", "2", "-d", "16", "--steps", "2", "-t", "1"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("cli") / "tiny.gguf", context=256)


def test_json_and_picture(tiny: Path, tmp_path: Path) -> None:
    picture = tmp_path / "step.svg"
    result = CliRunner().invoke(app, ["profile", str(tiny), *SMALL, "--json", "--svg", str(picture)])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["batch"] == 2 and report["depth"] == 16 and report["ceilings"]["int8_gops"] > 0
    assert [phase["phase"] for phase in report["phases"]] == ["prefill", "decode"]
    tree = report["phases"][1]["tree"]
    assert tree["kind"] == "step" and tree["parts"] and tree["cost"]["weight_bytes"] > 0
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_table_of_one_phase(tiny: Path) -> None:
    result = CliRunner().invoke(app, ["profile", str(tiny), *SMALL, "--phase", "decode", "--layers"])
    assert result.exit_code == 0, result.output
    assert "decode: 2 steps of 2 tokens" in result.stdout and "prefill:" not in result.stdout
    assert "layer 1" in result.stdout and "Linear" in result.stdout


def test_an_unknown_phase_is_refused_before_anything_is_loaded() -> None:
    result = CliRunner().invoke(app, ["profile", "no such model", "--phase", "train"])
    assert isinstance(result.exception, TenfoldError)
    assert "prefill, decode" in str(result.exception)


def test_a_picture_that_cannot_be_written_is_told(tiny: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "absent" / "step.svg"
    result = CliRunner().invoke(app, ["profile", str(tiny), *SMALL, "--svg", str(nowhere)])
    assert isinstance(result.exception, TenfoldError)
    assert "cannot be written" in str(result.exception)


def test_bars_are_as_long_as_their_share() -> None:
    assert bar(0.0) == "" and bar(1.0) == "█" * 30 and bar(2.0) == bar(1.0)
    assert bar(0.5) == "█" * 15 and bar(0.5 + 1 / 60) == "█" * 15 + "▌"
