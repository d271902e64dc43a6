from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tenfold.cli.main import app
from tenfold.config.engine import EngineSettings
from tenfold.core.errors import TenfoldError
from tenfold.engine.async_engine import AsyncEngine
from tenfold.engine.model import load_model
from tests.server.running_server import RunningServer
from tests.tiny_models import write_tiny_gguf

ENGINE = ["-p", "20", "-o", "4", "-b", "2", "-d", "16", "-t", "1", "-r", "1"]
SERVE = ["--num-requests", "3", "--prompt-len", "8", "--output-len", "4"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("cli") / "tiny.gguf", context=256)


@pytest.fixture(scope="module")
def url(tiny: Path) -> Iterator[str]:
    settings = EngineSettings(threads=1, kv_cache_memory_bytes=1 << 20)
    with RunningServer(AsyncEngine(load_model(tiny, settings), "tiny")) as server:
        yield server.url


def test_engine_json_has_the_promised_fields(tiny: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "engine", "--model", str(tiny), *ENGINE, "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    for name in ("prefill_tokens_per_s", "decode_tokens_per_s"):
        assert report[name] > 0
    for name in ("prefill_share_of_ceiling", "decode_share_of_ceiling"):
        assert report[name] > 0
    assert report["ttft_ms"]["p50"] > 0 and report["itl_ms"]["p99"] > 0
    assert report["ceilings"]["memory_read_gbs"] > 0
    expected = {"prompt_len": 20, "output_len": 4, "batch": 2, "depth": 16, "threads": 1, "repeat": 1}
    assert {name: report[name] for name in expected} == expected
    assert len(report["repeats"]) == 1 and report["isa"] and report["model"] == "Tiny llama"


def test_engine_table(tiny: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "engine", "--model", str(tiny), *ENGINE, "--no-ceilings"])
    assert result.exit_code == 0, result.output
    assert "prefill 20" in result.stdout and "decode 4" in result.stdout


def test_serve_json(url: str) -> None:
    arguments = ["bench", "serve", "--url", url, *SERVE, "--slo-ttft-ms", "60000", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["completed"] == 3 and report["concurrency"] == 8 and report["met_slo"] == 3
    assert report["ttft_ms"]["p90"] > 0


def test_serve_table_of_an_open_loop(url: str) -> None:
    arguments = ["bench", "serve", "--url", url, *SERVE, "--request-rate", "100", "--endpoint", "completions"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "3 of 3" in result.stdout and "time to first token" in result.stdout


def test_serve_takes_one_kind_of_load(url: str) -> None:
    arguments = ["bench", "serve", "--url", url, "--request-rate", "1", "--concurrency", "1"]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, TenfoldError)
    assert "exclude each other" in str(result.exception)


def test_serve_says_what_failed(url: str) -> None:
    result = CliRunner().invoke(app, ["bench", "serve", "--url", url, *SERVE, "--model", "other"])
    assert result.exit_code == 0, result.output
    assert "0 of 3" in result.stdout and "HTTP 404" in result.stdout
    assert "The first of these got:" in result.stdout and "other" in result.stdout


def test_random_prompts_differ_between_runs(url: str) -> None:
    seeds = set()
    for _ in range(2):
        result = CliRunner().invoke(app, ["bench", "serve", "--url", url, *SERVE, "--json"])
        seeds.add(json.loads(result.stdout)["seed"])
    assert len(seeds) == 2
