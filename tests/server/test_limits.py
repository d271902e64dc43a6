"""The door: keys, body size, slow bodies, overload, engine failures, CORS."""

from __future__ import annotations

import socket
import threading
import time

import httpx
import pytest

from tenfold.core.errors import EngineError, InvalidRequestError, OverloadedError
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer, wait_until
from tests.server.test_bad_input import error_of
from tests.server.test_chat import HELLO

CHAT = "/v1/chat/completions"
BODY = {"messages": HELLO}


def test_keys_guard_all_but_health_and_page():
    with RunningServer(FakeEngine(), api_keys=("one", "zwei-ü")) as server:
        client = server.client
        for headers in (
            {},
            {"Authorization": "one"},
            {"Authorization": "Bearer"},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Basic one"},
        ):
            for path in ("/v1/models", "/metrics", "/nowhere"):
                response = client.get(path, headers=headers)
                assert response.status_code == 401
                assert response.headers["www-authenticate"] == "Bearer"
                assert error_of(response)["code"] == "invalid_api_key"
            assert client.post(CHAT, json=BODY, headers=headers).status_code == 401
        assert not server.engine.requests
        for key in (b"Bearer one", "bearer zwei-ü".encode()):
            assert client.post(CHAT, json=BODY, headers={b"Authorization": key}).status_code == 200
        assert client.get("/health").status_code == 200
        assert client.get("/").status_code == 200


def raw(server: RunningServer, head: str, *parts: bytes) -> bytes:
    """Send a request by hand; returns all that comes until the server closes."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n")
        try:
            for part in parts:
                connection.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except ConnectionResetError:
            pass
        return answer


def test_long_bodies_are_refused_while_they_arrive():
    with RunningServer(FakeEngine(), max_body_bytes=1000) as server:
        announced = server.client.post(CHAT, content=b"x" * 1001)
        assert announced.status_code == 413
        assert "1000" in error_of(announced)["message"]
        chunked = server.client.post(CHAT, content=(b"x" * 600 for _ in range(2)))
        assert chunked.status_code == 413
        # No body is read at all when its length is announced as too long.
        answer = raw(server, f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999")
        assert answer.startswith(b"HTTP/1.1 413")
        assert server.client.post(CHAT, json=BODY).status_code == 200


def test_a_body_somewhat_too_long_is_read_so_that_its_client_hears_why():
    with RunningServer(FakeEngine(), max_body_bytes=1000) as server:
        bodies = server.server._service.bodies
        for _ in range(3):  # on one connection, if the client likes
            assert server.client.post(CHAT, content=b"x" * (16 << 20)).status_code == 413
        chunks = (b"x" * (1 << 20) for _ in range(16))
        assert server.client.post(CHAT, content=chunks).status_code == 413
        assert bodies.pending == 0
        # A client that asks before it sends is told before it sends.
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2000"
        assert raw(server, head).startswith(b"HTTP/1.1 413")


def test_long_texts_to_tokenize_do_not_keep_chats_waiting(monkeypatch):
    gate = threading.Event()
    with RunningServer(FakeEngine()) as server:
        encode = server.engine.tokenizer.encode

        def slow(text, **options):
            if len(text) > 20_000:
                assert gate.wait(10)
            return encode(text, **options)

        monkeypatch.setattr(server.engine.tokenizer, "encode", slow)
        waiting = [
            threading.Thread(
                target=httpx.post, args=(server.url + "/tokenize",), kwargs={"json": {"prompt": "x" * 30_000}}
            )
            for _ in range(4)
        ]
        for thread in waiting:
            thread.start()
        wait_until(lambda: server.server._service.in_flight == 4)
        assert server.client.post(CHAT, json=BODY).status_code == 200
        gate.set()
        for thread in waiting:
            thread.join(10)


def test_bytes_of_all_bodies_are_bounded():
    with RunningServer(FakeEngine(), max_pending_body_bytes=1500) as server:
        host, port = server.url.removeprefix("http://").split(":")
        bodies = server.server._service.bodies
        with socket.create_connection((host, int(port))) as slow:
            slow.sendall(
                f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 1200\r\n\r\n".encode() + b"x" * 1000
            )
            wait_until(lambda: bodies.pending == 1000)
            refused = server.client.post(CHAT, content=b"x" * 1000)
            assert refused.status_code == 429
            assert refused.headers["retry-after"] == "1"
            assert server.client.post(CHAT, json=BODY).status_code == 200
        wait_until(lambda: bodies.pending == 0)


def test_slow_bodies_time_out():
    with RunningServer(FakeEngine(), body_timeout_s=0.1) as server:
        start = time.monotonic()
        answer = raw(server, f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 100", b"{")
        assert answer.startswith(b"HTTP/1.1 408")
        assert time.monotonic() - start < 5


def test_engine_overload_is_429_with_retry_after():
    with RunningServer(FakeEngine(delay=0.01, max_running=1)) as server:
        with server.client.stream("POST", CHAT, json={**BODY, "stream": True}) as running:
            lines = running.iter_lines()
            next(lines)
            for stream in (False, True):
                refused = server.client.post(CHAT, json={**BODY, "stream": stream})
                assert refused.status_code == 429
                assert refused.headers["retry-after"] == "3"
                assert error_of(refused)["code"] == "overloaded"
            # Several prompts are all refused when one is; the one that got in is aborted.
            several = server.client.post("/v1/completions", json={"prompt": ["a", "b"]})
            assert several.status_code == 429
            assert list(lines)[-2:] == ["data: [DONE]", ""]
        server.engine.check()


def test_server_bound_on_waiting():
    with RunningServer(FakeEngine(max_waiting=5)) as server:
        server.engine.num_waiting = 5
        assert server.client.post(CHAT, json=BODY).status_code == 429
        server.engine.num_waiting = 4
        assert server.client.post(CHAT, json=BODY).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (
            InvalidRequestError("No room.", param="prompt", code="context_length_exceeded"),
            400,
            "context_length_exceeded",
        ),
        (OverloadedError("Going down.", shutting_down=True), 503, "shutting_down"),
        (EngineError("The step failed."), 500, "engine_error"),
        (RuntimeError("secret detail"), 500, "internal_error"),
    ],
)
def test_engine_errors_before_the_first_output(error, status, code, stream):
    with RunningServer(FakeEngine(error=error)) as server:
        response = server.client.post(CHAT, json={**BODY, "stream": stream})
        assert response.status_code == status
        assert error_of(response)["code"] == code
        assert "secret" not in response.text


def test_engine_error_in_mid_stream_is_an_event():
    with RunningServer(FakeEngine(fail_after=3, error=EngineError("The step failed."))) as server:
        response = server.client.post(CHAT, json={**BODY, "stream": True})
        assert response.status_code == 200
        parts = response.text.strip().split("\n\n")
        assert '"error":{"message":"The step failed."' in parts[-2]
        assert parts[-1] == "data: [DONE]"
        assert server.client.post(CHAT, json=BODY).status_code == 500
        server.engine.check()


def test_cors_only_for_listed_origins():
    preflight = {
        "Origin": "http://a.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
    }
    with RunningServer(FakeEngine(), cors_origins=("http://a.example",), api_keys=("k",)) as server:
        answer = server.client.options(CHAT, headers=preflight)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "http://a.example"
        assert "x-stainless-lang" in answer.headers["access-control-allow-headers"]
        other = server.client.get("/health", headers={"Origin": "http://b.example"})
        assert "access-control-allow-origin" not in other.headers
    with RunningServer(FakeEngine()) as server:
        assert server.client.options(CHAT, headers=preflight).status_code == 405
