"""The documents are true: what they link to exists, what they show works, what they list is complete."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import typer

from tenfold.cli.main import app
from tenfold.config.key_file import read_key_file
from tenfold.config.load import load_settings
from tenfold.core.stats import EngineStats
from tenfold.observe.metrics import Metrics

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/operations.md")
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(name: str, title: str) -> str:
    """A document's part under a heading of the second level."""
    return re.split(r"^## ", read(name).split(f"\n## {title}\n")[1], flags=re.MULTILINE)[0]


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(name), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_relative_links_lead_somewhere(name):
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", read(name))
    assert targets
    folder = (ROOT / name).parent
    absent = [link for link in targets if not link.startswith("http") and not (folder / link).exists()]
    assert not absent


def test_the_journey_names_files_that_exist():
    journey = section("ARCHITECTURE.md", "A request's journey")
    steps = re.findall(r"^\d+\. (.*)$", journey, re.MULTILINE)
    files = re.findall(r"`((?:src|native)/[^`]+)`", journey)
    assert 8 <= len(steps) <= 12
    assert all("`src/" in step or "`native/" in step for step in steps)
    assert not [file for file in files if not (ROOT / file).is_file()]


def test_the_table_of_rooms_is_the_tree():
    listed = re.findall(r"^\| \d \| `(\w+)` \|", section("ARCHITECTURE.md", "Rooms"), re.MULTILINE)
    rooms = [path.parent.name for path in (ROOT / "src" / "tenfold").glob("*/__init__.py")]
    assert sorted(listed) == sorted(rooms)


def test_readme_lists_every_command():
    listed = re.findall(r"^\| `tenfold (\w+)", read("README.md"), re.MULTILINE)
    assert listed == list(COMMANDS)


def test_readme_lists_every_flag_of_serve():
    listed = re.findall(r"^\| `(--[\w-]+)`", section("README.md", "Settings"), re.MULTILINE)
    flags = [
        next(flag for flag in parameter.opts if flag.startswith("--"))
        for parameter in COMMANDS["serve"].params
        if parameter.param_type_name == "option" and parameter.name != "help"
    ]
    assert listed == flags


def test_the_sample_settings_load(tmp_path):
    (sample,) = blocks("README.md", "toml")
    path = tmp_path / "tenfold.toml"
    path.write_text(sample, encoding="utf-8")
    settings, sources = load_settings({}, config_file=path, environment={})
    assert settings.server.api_keys == ("change-me",)
    assert settings.engine.threads == 8
    assert len(sources) == len(re.findall(r"^\w+ = ", sample, re.MULTILINE))


def test_the_samples_of_operations_load(tmp_path):
    settings, keys = blocks("docs/operations.md", "toml")
    path = tmp_path / "sample.toml"
    path.write_text(settings, encoding="utf-8")
    loaded, _ = load_settings({}, config_file=path, environment={})
    assert (loaded.model, loaded.engine.max_num_seqs) == ("smollm2", 32)
    path.write_text(keys, encoding="utf-8")
    path.chmod(0o600)
    entries, warnings = read_key_file(path)
    assert [entry.name for entry in entries] == ["website", "prometheus"]
    assert not warnings


def test_the_page_of_metrics_lists_each():
    metrics = Metrics("m")
    metrics.errors[400] += 1
    found = metrics.render(EngineStats()).decode()
    kinds = dict(re.findall(r"^# TYPE tenfold:(\S+) (\S+)$", found, re.MULTILINE))
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", read("docs/metrics.md"), re.MULTILINE)
    assert len(dict(rows)) == len(rows)
    assert dict(rows) == kinds


def test_python_blocks_are_python_and_import_what_exists():
    samples = blocks("README.md", "python")
    assert len(samples) >= 2
    for sample in samples:
        for node in ast.walk(ast.parse(sample)):
            if isinstance(node, ast.ImportFrom) and node.module == "tenfold":
                exec(compile(ast.Module([node], []), "README.md", "exec"), {})


@pytest.mark.parametrize("name", DOCUMENTS)
def test_make_targets_and_scripts_named_exist(name):
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    assert set(re.findall(r"`make\s([a-z-]+)", read(name))) <= targets
    for script in re.findall(r"`(?:PYTHON=\S+ )?(scripts/[\w-]+|\.ci/run)", read(name)):
        assert (ROOT / script).is_file()
