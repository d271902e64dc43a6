"""`tenfold serve` as a process: what it says at start, that it answers, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from tests.tiny_models import write_tiny_gguf

COMMAND = (sys.executable, "-c", "from tenfold.cli.main import main; main()", "serve")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(write_tiny_gguf(tmp_path_factory.mktemp("serve") / "tiny-model.gguf", "llama", "Q8_0"))


def start(*args: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
    )


@pytest.fixture(scope="module")
def served(tiny) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A server by default settings, but for a free port: (process, its banner, its address)."""
    process = start(tiny, "--port", "0", TENFOLD_MAX_NUM_SEQS="3")
    assert process.stdout is not None
    assert process.stderr is not None
    with process, process.stdout, process.stderr:
        banner = ""
        for line in process.stdout:
            banner += line
            if "Ctrl-C" in line:
                break
        found = re.search(r"http://127\.0\.0\.1:\d+", banner)
        assert found is not None, banner + process.stderr.read()
        yield process, banner, found[0]
        process.kill()


def test_it_says_where_and_how(served):
    _, banner, address = served
    assert re.search(r"^Ready in \d+\.\d\d s: tiny-model\.gguf, up to \d+ tokens\.$", banner, re.MULTILINE)
    assert f"Chat in a browser  {address}/\n" in banner
    assert f"curl -N {address}/v1/chat/completions" in banner
    assert '"model": "tiny-model"' in banner
    assert "  max_num_seqs: 3 (from the environment)\n" in banner
    assert "port: " not in banner


def test_it_says_what_it_chose_and_why(served):
    _, banner, _ = served
    assert re.search(r"^  isa: \w+ \(\w.*\)$", banner, re.MULTILINE)
    assert re.search(r"^  threads: \d+ \(the CPUs this process may use\)$", banner, re.MULTILINE)
    assert re.search(r"^  kv_cache: \d+ MiB \(\w.*\)$", banner, re.MULTILINE)


def test_it_answers_and_ends_when_told(served):
    process, _, address = served
    assert httpx.get(f"{address}/health").status_code == 200
    assert httpx.get(f"{address}/v1/models").json()["data"][0]["id"] == "tiny-model"
    answer = httpx.post(
        f"{address}/v1/completions",
        json={"model": "tiny-model", "prompt": "Hello", "max_tokens": 4},
        timeout=60,
    )
    assert answer.json()["usage"]["completion_tokens"] >= 1
    process.send_signal(signal.SIGINT)
    assert process.wait(30) in (0, -signal.SIGINT)
    assert "Traceback" not in process.stderr.read()


def test_a_taken_port_is_a_sentence(tiny):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = start(tiny, "--port", str(port))
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.startswith(f"tenfold: Port {port} on 127.0.0.1 is taken by another program")
    assert "Traceback" not in err


def test_logs_are_json_lines_and_a_unix_socket_serves(tiny, tmp_path):
    path = tmp_path / "tenfold.sock"
    process = start(tiny, "--uds", str(path), "--log-format", "json", TENFOLD_PROT="1")
    assert process.stdout is not None
    with process, process.stdout:
        banner = ""
        for line in process.stdout:
            banner += line
            if "Ctrl-C" in line:
                break
        assert f"curl -N --unix-socket {path} http://localhost/v1/chat/completions" in banner
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), timeout=60) as client:
            body = {"prompt": "sesame", "max_tokens": 3}
            assert client.post("http://localhost/v1/completions", json=body).status_code == 200
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    first, *rest = err.splitlines()
    assert "did you mean TENFOLD_PORT?" in first
    (line,) = [each for each in map(json.loads, rest) if each["logger"] == "tenfold.access"]
    assert (line["path"], line["status"], line["completion_tokens"]) == ("/v1/completions", 200, 3)
    assert line["ttft_s"] > 0
    assert "sesame" not in err


def test_a_wrong_key_file_is_told_before_the_model_is_loaded(tmp_path):
    process = start("absent.gguf", "--api-keys-file", str(tmp_path / "absent.toml"), "--port", "0")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.startswith(f"tenfold: The key file {tmp_path / 'absent.toml'} cannot be read")
