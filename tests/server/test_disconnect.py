"""Clients that go away: the engine hears of it at once."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer, run_async, wait_until
from tests.server.test_chat import HELLO

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize("stream", [False, True])
def test_two_hundred_at_once(stream):
    body = json.dumps({"messages": HELLO, "stream": stream, "n": 2}).encode()
    request = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def main(host: str, port: int) -> None:
        pairs = await asyncio.gather(*(asyncio.open_connection(host, port) for _ in range(200)))
        for _, writer in pairs:
            writer.write(request)
        while len(server.engine.running) < 200:
            await asyncio.sleep(0.005)
        if stream:
            await asyncio.gather(*(reader.readuntil(b"data: ") for reader, _ in pairs))
        for _, writer in pairs:
            writer.transport.abort()

    # A token of this engine takes longer than the test: only an abort can empty it in time.
    with RunningServer(FakeEngine("long " * 400, delay=30 if not stream else 0.2)) as server:
        host, port = server.url.removeprefix("http://").split(":")
        run_async(main(host, int(port)))
        wait_until(lambda: not server.engine.running)
        assert len(server.engine.aborted) == 200
        wait_until(lambda: server.server._service.in_flight == 0)
        assert server.server._service.metrics.disconnects == 200
        server.engine.check()
        assert server.client.get("/health").status_code == 200


def test_one_leaves_and_the_other_is_not_harmed():
    async def main() -> str:
        async with httpx.AsyncClient(base_url=server.url, timeout=20) as client:
            body = {"messages": HELLO, "stream": True}

            async def leave() -> None:
                async with client.stream("POST", CHAT, json=body) as response:
                    async for _ in response.aiter_lines():
                        return

            async def stay() -> str:
                return (await client.post(CHAT, json=body)).text

            _, text = await asyncio.gather(leave(), stay())
            return text

    with RunningServer(FakeEngine(delay=0.005)) as server:
        text = run_async(main())
        assert text.endswith("data: [DONE]\n\n")
        wait_until(lambda: len(server.engine.aborted) == 1)


def test_leaving_while_the_body_is_sent():
    async def main(host: str, port: int) -> None:
        _, writer = await asyncio.open_connection(host, port)
        writer.write(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{".encode())
        await writer.drain()
        while server.server._service.in_flight == 0:
            await asyncio.sleep(0.005)
        writer.transport.abort()

    with RunningServer(FakeEngine()) as server:
        host, port = server.url.removeprefix("http://").split(":")
        run_async(main(host, int(port)))
        wait_until(lambda: server.server._service.in_flight == 0)
        assert server.server._service.bodies.pending == 0
        assert not server.engine.requests
