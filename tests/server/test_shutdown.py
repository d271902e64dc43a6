"""The orderly end: running requests finish, new ones are told to go, signals are obeyed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from tenfold.config.server import ServerSettings
from tenfold.core.errors import TenfoldError
from tenfold.server.run import Server
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer, run_async, wait_until
from tests.server.test_bad_input import error_of
from tests.server.test_chat import HELLO, TEXT

CHAT = "/v1/chat/completions"
BODY = {"messages": HELLO}


def test_running_requests_finish_and_new_ones_get_503():
    with RunningServer(FakeEngine(delay=0.04)) as server:
        replies = []
        running = threading.Thread(target=lambda: replies.append(server.client.post(CHAT, json=BODY)))
        running.start()
        wait_until(lambda: server.engine.running)
        server.server.stop()
        wait_until(lambda: server.engine.draining)
        with httpx.Client(base_url=server.url) as late:
            refused = late.post(CHAT, json=BODY)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) > 0
            assert error_of(refused)["code"] == "shutting_down"
            assert late.get("/health").status_code == 503
            assert late.get("/metrics").status_code == 200
        running.join()
        assert replies[0].json()["choices"][0]["message"]["content"] == TEXT
        server.thread.join(10)
        assert not server.thread.is_alive()


@pytest.mark.parametrize("stream", [False, True])
def test_requests_that_take_too_long_are_told(stream):
    with RunningServer(FakeEngine("long " * 1000, delay=0.05), shutdown_timeout_s=0.2) as server:
        replies = []

        def ask() -> None:
            replies.append(server.client.post(CHAT, json={**BODY, "stream": stream}))

        running = threading.Thread(target=ask)
        running.start()
        wait_until(lambda: server.engine.running)
        start = time.monotonic()
        server.server.stop()
        running.join()
        server.thread.join(10)
        assert time.monotonic() - start < 5
        assert replies[0].status_code == (200 if stream else 503)
        assert '"code":"shutting_down"' in replies[0].text


def test_stopping_twice_ends_at_once_and_quietly(caplog):
    with RunningServer(FakeEngine("long " * 1000, delay=0.1), shutdown_timeout_s=60) as server:
        with (
            httpx.Client(base_url=server.url, timeout=20) as client,
            client.stream("POST", CHAT, json={**BODY, "stream": True}) as response,
        ):
            lines = response.iter_lines()
            next(lines)
            server.server.stop()
            wait_until(lambda: server.engine.draining)
            start = time.monotonic()
            server.server.stop()
            rest = [line for line in lines if line]
            assert "shutting_down" in rest[-2]
            assert rest[-1] == "data: [DONE]"
        server.thread.join(10)
        assert time.monotonic() - start < 5
    assert not [record for record in caplog.records if record.exc_info]


_SCRIPT = """
import sys
from tenfold.config.server import ServerSettings
from tenfold.server.run import run
from tests.server.fake_engine import FakeEngine
run(FakeEngine(delay=0.02), ServerSettings(port=0), on_ready=lambda url: print(url, flush=True))
print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_the_process_in_order(number):
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    process = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        replies = []
        ask = threading.Thread(target=lambda: replies.append(httpx.post(url + CHAT, json=BODY, timeout=20)))
        ask.start()
        wait_until(lambda: 'num_requests_running{model_name="fake"} 1.0' in httpx.get(url + "/metrics").text)
        process.send_signal(number)
        ask.join()
        out, err = process.communicate(timeout=15)
    finally:
        process.kill()
        process.communicate()
    assert replies[0].json()["choices"][0]["message"]["content"] == TEXT
    assert (process.returncode, out, err) == (0, "ended\n", "")


_RELOADED = """
import sys
from tenfold.config.server import ServerSettings
from tenfold.server.run import run
from tests.server.fake_engine import FakeEngine
settings = ServerSettings(port=0, audit_log=sys.argv[1], api_keys_file=sys.argv[2])
run(FakeEngine(), settings, on_ready=lambda url: print(url, flush=True))
"""


def test_hangup_reads_keys_and_opens_logs_again(tmp_path):
    root = Path(__file__).parents[2]
    log, keys = tmp_path / "audit", tmp_path / "keys.toml"
    keys.touch(0o600)
    keys.write_text('[[keys]]\nname = "a"\nkey = "old"\n')
    process = subprocess.Popen(
        [sys.executable, "-c", _RELOADED, str(log), str(keys)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()

        def ask(key: str) -> int:
            return httpx.get(url + "/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code

        assert (ask("old"), ask("new")) == (200, 401)
        keys.write_text('[[keys]]\nname = "a"\nkey = "new"\n')
        wait_until(lambda: log.read_text().count("\n") == 2)
        log.rename(tmp_path / "moved")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: ask("new") == 200)
        assert ask("old") == 401
        wait_until(lambda: log.exists() and log.read_text().count("\n") >= 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.communicate()


def listen_error(**settings):
    server = Server(FakeEngine(), ServerSettings(**settings))
    with pytest.raises(TenfoldError) as caught:
        run_async(server.serve())
    return str(caught.value)


def test_taken_port_is_a_sentence_before_the_engine_starts():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        message = listen_error(port=port)
    assert str(port) in message
    assert "--port" in message


def test_impossible_addresses_are_sentences():
    assert "65535" in listen_error(port=99999)
    assert "no-such-host.invalid" in listen_error(host="no-such-host.invalid")
    assert "--host" in listen_error(host="203.0.113.7")
