"""A client that reads slowly gets every token, in order."""

from __future__ import annotations

import json
import socket
import time

import httptools

from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer, wait_until
from tests.server.test_chat import HELLO

TEXT = "".join(f"{number}," for number in range(4000))


class Body:
    """Gathers a response's body."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.complete = False

    def on_body(self, piece: bytes) -> None:
        self.pieces.append(piece)

    def on_message_complete(self) -> None:
        self.complete = True


def test_tokens_stay_in_order_while_the_socket_is_full() -> None:
    engine = FakeEngine(TEXT, burst=7)
    body = json.dumps({"messages": HELLO, "stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with RunningServer(engine) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((host, int(port)))
            client.settimeout(20)
            client.sendall(head.encode() + body)
            wait_until(lambda: bool(engine.requests) and not engine.running)  # the engine did not wait
            received = Body()
            parser = httptools.HttpResponseParser(received)
            while not received.complete:
                piece = client.recv(65536)
                assert piece, "the connection ended before the response"
                parser.feed_data(piece)
                if len(received.pieces) % 500 == 0:
                    time.sleep(0.002)  # the socket runs full and empty again and again
    events = b"".join(received.pieces).decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == TEXT
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert len({json.dumps({**chunk, "choices": []}) for chunk in chunks}) == 1, "all chunks have one head"
