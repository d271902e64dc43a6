"""Unix sockets: served, their mode, what lies at their path already."""

from __future__ import annotations

import os
import socket
import stat

import pytest

from tenfold.config.server import ServerSettings
from tenfold.core.errors import TenfoldError
from tenfold.server.listener import close_listener, listen
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer
from tests.server.test_chat import HELLO, TEXT

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_on_a_unix_socket(tmp_path, stream):
    path = tmp_path / "tenfold.sock"
    with RunningServer(FakeEngine(), uds=str(path)) as server:
        assert server.url == f"unix:{path}"
        reply = server.client.post(CHAT, json={"messages": HELLO, "stream": stream})
        assert reply.status_code == 200
        if stream:
            assert reply.text.endswith("data: [DONE]\n\n")
        else:
            assert reply.json()["choices"][0]["message"]["content"] == TEXT
    assert not path.exists()


@pytest.mark.parametrize("mode", ["600", "0666"])
def test_mode_bits(tmp_path, mode):
    path = tmp_path / "socket"
    settings = ServerSettings(uds=str(path), uds_mode=mode)
    before = os.umask(0o077)
    try:
        listener = listen(settings)
        assert stat.S_IMODE(path.stat().st_mode) == int(mode, 8)
        assert os.umask(0o077) == 0o077  # left as it was
    finally:
        os.umask(before)
    close_listener(settings, listener)
    assert not path.exists()


def refusal(path):
    with pytest.raises(TenfoldError) as caught:
        listen(ServerSettings(uds=str(path)))
    assert "--uds" in str(caught.value)
    return str(caught.value)


def test_what_lies_there_already(tmp_path):
    path = tmp_path / "socket"
    settings = ServerSettings(uds=str(path))
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    close_listener(settings, listen(settings))  # the stale one was replaced
    live = listen(settings)
    assert "Another program listens" in refusal(path)
    # Another server has taken the path since: its socket stays.
    path.unlink()
    other = listen(settings)
    close_listener(settings, live)
    assert path.exists()
    close_listener(settings, other)
    path.write_text("precious")
    assert "no socket" in refusal(path)
    assert path.read_text() == "precious"


def test_paths_that_cannot_be(tmp_path):
    assert "longer than 107 bytes" in refusal(tmp_path / ("x" * 120))
    assert "No such file" in refusal(tmp_path / "absent" / "socket")
