"""Broken, endless and dripping HTTP heads; several requests sent at once."""

from __future__ import annotations

import json
import socket
import time

import pytest

from tenfold.server import connection
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer, wait_until

BODY = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
REQUEST = (
    f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY
)


def dial(server: RunningServer) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def read_all(client: socket.socket) -> bytes:
    answer = b""
    try:
        while part := client.recv(65536):
            answer += part
    except ConnectionResetError:
        pass
    return answer


@pytest.mark.parametrize(
    "sent", [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET /\xff HTTP/1.1\r\n\r\n"]
)
def test_broken_http_is_400_in_the_same_shape(shared, sent):
    with dial(shared) as client:
        client.sendall(sent)
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 400")
    assert json.loads(answer.split(b"\r\n\r\n")[1])["error"]["message"]
    assert b"\r\nx-request-id: req_" in answer


OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_an_offer_of_http2_is_passed_over(shared, size, chunked):
    offering = REQUEST.replace(b"Host: x\r\n", b"Host: x\r\n" + OFFER)
    if chunked:
        head = offering.split(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
        offering = head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    asking = b"GET /health HTTP/1.1\r\nHost: x\r\n" + OFFER + b"\r\n"
    last = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    sent = offering + asking + offering + last
    with dial(shared) as client:
        for start in range(0, len(sent), size):
            client.sendall(sent[start : start + size])
        answer = read_all(client)
    assert answer.count(b"HTTP/1.1 200 OK") == 4
    assert answer.count(b'"chat.completion"') == 2
    assert b'"version"' in answer


def test_a_tunnel_is_refused(shared):
    with dial(shared) as client:
        client.sendall(b"CONNECT /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert read_all(client).startswith(b"HTTP/1.1 405")


def test_endless_headers_are_cut_off(shared):
    with dial(shared) as client:
        client.sendall(b"GET /health HTTP/1.1\r\n")
        with pytest.raises(OSError):
            for number in range(100_000):
                client.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))
                assert number < 5000, "the server took 5 MB of headers"
    assert shared.client.get("/health").status_code == 200


def test_one_long_header_is_431(shared):
    with dial(shared) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nX: " + b"x" * (connection.MAX_HEAD_BYTES + 1))
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 431")


def test_endless_trailers_are_cut_off(shared):
    with dial(shared) as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        with pytest.raises(OSError):
            for number in range(100_000):
                client.sendall(b"X-%d: %s\r\n" % (number, b"x" * 1000))
                assert number < 5000, "the server took 5 MB of trailers"
    assert shared.client.get("/health").status_code == 200


def test_a_body_longer_than_the_bound_on_heads_is_fine(shared):
    body = json.dumps({"prompt": "a", "x": "y" * 200_000})
    for _ in range(2):  # on the same connection
        assert shared.client.post("/v1/completions", content=body).status_code == 200


def test_dripping_heads_time_out(monkeypatch):
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.2)
    with RunningServer(FakeEngine()) as server, dial(server) as silent, dial(server) as dripping:
        start = time.monotonic()
        dripping.sendall(b"GET /health HTTP/1.1\r\nX: ")
        assert read_all(dripping).startswith(b"HTTP/1.1 408")
        assert read_all(silent).startswith(b"HTTP/1.1 408")
        assert time.monotonic() - start < 5


def test_requests_sent_at_once_are_answered_in_turn(shared):
    with dial(shared) as client:
        client.sendall(REQUEST * 3)
        answer = b""
        while answer.count(b'"chat.completion"') < 3:
            part = client.recv(65536)
            assert part
            answer += part
    assert answer.count(b"HTTP/1.1 200") == 3


def test_leaving_after_requests_sent_at_once_ends_the_first():
    with RunningServer(FakeEngine("long " * 1000, delay=0.05, max_model_len=9000)) as server:
        with dial(server) as client:
            client.sendall(REQUEST * 2)
            wait_until(lambda: server.engine.running)
        wait_until(lambda: server.engine.aborted)
        wait_until(lambda: not server.engine.running)
        wait_until(lambda: server.server._service.in_flight == 0)
