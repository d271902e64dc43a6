"""`tenfold config`, and the help of `tenfold serve`, as a person sees them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tenfold.cli.main import app
from tenfold.core.errors import TenfoldError


def run(*arguments, **environment):
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100", **environment})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def test_each_value_and_where_it_came_from(tmp_path):
    file = tmp_path / "tenfold.toml"
    file.write_text('port = 1\nhost = "0.0.0.0"\nmax-waiting = 3\n')
    result = run(
        *("config", "model.gguf", "--config", str(file), "--port", "9000", "--api-key", "sesame", "--json"),
        TENFOLD_HOST="127.0.0.2",
    )
    shown = json.loads(result.stdout)
    assert shown["model"] == {"value": "model.gguf", "source": "flag"}
    assert shown["port"] == {"value": 9000, "source": "flag"}
    assert shown["host"] == {"value": "127.0.0.2", "source": "environment"}
    assert shown["max_waiting"] == {"value": 3, "source": "file"}
    assert shown["max_num_seqs"] == {"value": 64, "source": "default"}
    assert shown["api_keys"] == {"value": "...", "source": "flag"}
    assert "sesame" not in result.output


def test_the_table_and_the_warning():
    result = run("config", TENFOLD_PROT="1", TENFOLD_MAX_WAITING="5")
    assert "did you mean TENFOLD_PORT?" in result.stderr
    (row,) = [line for line in result.stdout.splitlines() if "max_waiting" in line]
    assert row.replace("│", " ").split() == ["max_waiting", "5", "environment"]


def test_a_wrong_file_is_the_sentence_of_serve(tmp_path):
    file = tmp_path / "tenfold.toml"
    file.write_text("prot = 1\n")
    with pytest.raises(TenfoldError, match="did you mean port"):
        run("config", TENFOLD_CONFIG=str(file))


def test_help_has_headings():
    text = run("serve", "--help").stdout
    text = text[text.index("Arguments:") :]
    headings = ["Where it listens:", "Who may ask:", "What clients see:", "The engine:", "What is recorded:"]
    places = [text.index(heading) for heading in [*headings, "Options:"]]
    assert places == sorted(places)
    assert text.index("--ssl-certfile") < places[1] < text.index("--api-keys-file") < places[2]
    assert places[3] < text.index("--threads") < text.index("--max-model-len") < places[4]
