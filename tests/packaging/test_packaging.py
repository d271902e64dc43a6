"""The unit and the image: they name what exists, and run the command as the README does."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path

from tests.laws.test_docs import COMMANDS, read


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(read("packaging/tenfold.service"))
    return parser


def known_flags(command: str) -> set[str]:
    return {flag for parameter in COMMANDS[command].params for flag in parameter.opts}


def test_the_unit_runs_a_command_that_exists():
    parsed = unit()
    assert parsed.sections() == ["Unit", "Service", "Install"]
    program, command, *arguments = shlex.split(parsed["Service"]["ExecStart"])
    assert program.startswith("/")
    assert Path(program).name == "tenfold"
    assert command in COMMANDS
    assert {argument for argument in arguments if argument.startswith("-")} <= known_flags(command)
    assert parsed["Service"]["ExecReload"].endswith("-HUP $MAINPID")
    assert parsed["Service"]["Environment"].startswith("TENFOLD_HOME=/")
    assert int(parsed["Service"]["TimeoutStopSec"]) > 30  # shutdown_timeout_s
    assert parsed["Install"]["WantedBy"] == "multi-user.target"


def test_the_image_installs_and_serves_as_the_readme_says():
    text = read("packaging/Containerfile")
    instructions = re.findall(r"^([A-Z]+) (.*)$", text, re.MULTILINE)
    assert instructions[0][0] == "FROM"
    assert "pip install ." in text
    assert "`pip install .`" in read("README.md")
    assert dict(instructions)["ENTRYPOINT"] == '["tenfold"]'
    assert dict(instructions)["CMD"] == '["serve"]'
    variables = dict(re.findall(r"(TENFOLD_\w+)=(\S+)", text))
    assert variables == {"TENFOLD_HOME": "/models", "TENFOLD_HOST": "0.0.0.0"}
    ignored = read(".dockerignore").split()
    assert {".git", ".venv", "build"} <= set(ignored)
