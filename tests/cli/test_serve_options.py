"""What `tenfold serve` says of its options without being run."""

from __future__ import annotations

import pytest
import typer

from tenfold.cli.main import app, main
from tenfold.text.parsers.registry import NONE, REASONING_FORMATS, TOOL_FORMATS

SERVE = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("option", "forms"), [("tool_call_parser", TOOL_FORMATS), ("reasoning_parser", REASONING_FORMATS)]
)
def test_the_help_names_every_parser(option, forms):
    (parameter,) = [one for one in SERVE.params if one.name == option]
    for name in (*(form.names[0] for form in forms), NONE):
        assert name in parameter.help


@pytest.mark.parametrize("flag", ["--tool-call-parser", "--reasoning-parser"])
def test_an_unknown_parser_is_told_before_anything_is_loaded(flag, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tenfold", "serve", "no-such-model", flag, "telepathy"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    assert capsys.readouterr().err.startswith(f"tenfold: {flag} 'telepathy' is unknown; give one of ")
