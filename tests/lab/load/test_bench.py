"""The load generator against a real server with a tiny model, and against servers that misbehave."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from tenfold.config.engine import EngineSettings
from tenfold.core.errors import TenfoldError
from tenfold.engine.async_engine import AsyncEngine
from tenfold.engine.model import load_model
from tenfold.lab.load.bench import bench_server
from tenfold.lab.load.settings import LoadSettings
from tests.server.running_server import RunningServer
from tests.tiny_models import write_tiny_gguf

CLOSED = LoadSettings(url="", concurrency=3, num_requests=7, prompt_len=10, output_len=5, timeout=30.0)
OPEN = msgspec.structs.replace(CLOSED, concurrency=None, request_rate=200.0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    file = write_tiny_gguf(tmp_path_factory.mktemp("load") / "tiny.gguf", context=512)
    settings = EngineSettings(threads=1, max_num_seqs=4, kv_cache_memory_bytes=4 << 20)
    engine = AsyncEngine(load_model(file, settings), "tiny")
    with RunningServer(engine, api_keys=("secret",)) as server:
        yield server
    engine.check()


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("load", [CLOSED, OPEN], ids=["closed", "open"])
def test_every_request_is_counted(served: RunningServer, load: LoadSettings, endpoint: str) -> None:
    settings = msgspec.structs.replace(
        load, url=served.url, endpoint=endpoint, slo_ttft_ms=60_000.0, slo_itl_ms=60_000.0
    )
    calls: list[tuple[int, int]] = []
    report = bench_server(settings, "secret", lambda label, done, total: calls.append((done, total)))
    assert report.errors == {} and report.completed == 7
    assert report.model == "tiny"
    assert report.output_tokens == 35 and report.tokens_counted_by == "usage"
    assert report.prompt_tokens >= 70
    assert report.ttft_ms is not None and report.e2e_ms is not None and report.e2e_ms.count == 7
    assert report.ttft_ms.max <= report.e2e_ms.max
    assert report.met_slo == 7
    assert 1 <= report.peak_concurrency <= (3 if load is CLOSED else 7)
    assert calls == [(number, 7) for number in range(1, 8)]


def test_a_url_may_end_in_v1(served: RunningServer) -> None:
    settings = msgspec.structs.replace(CLOSED, url=f"{served.url}/v1", num_requests=2)
    assert bench_server(settings, "secret").completed == 2


def test_requests_that_the_server_refuses_are_errors_by_kind(served: RunningServer) -> None:
    settings = msgspec.structs.replace(CLOSED, url=served.url, model="other")
    assert bench_server(settings, "secret").errors == {"HTTP 404": 7}
    settings = msgspec.structs.replace(CLOSED, url=served.url, model="tiny", prompt_len=2000)
    report = bench_server(settings, "secret")
    assert report.errors == {"HTTP 400": 7}
    assert "context_length_exceeded" in (report.first_failed_reply or "")


def test_a_missing_key_is_said(served: RunningServer) -> None:
    with pytest.raises(TenfoldError, match="wants an API key"):
        bench_server(msgspec.structs.replace(CLOSED, url=served.url))


def test_no_server() -> None:
    with pytest.raises(TenfoldError, match="does not answer"):
        bench_server(msgspec.structs.replace(CLOSED, url="http://127.0.0.1:9"))
    with pytest.raises(TenfoldError, match="names no server"):
        bench_server(msgspec.structs.replace(CLOSED, url="localhost:8000"))
    report = bench_server(msgspec.structs.replace(CLOSED, url="http://127.0.0.1:9", model="m"))
    assert report.completed == 0 and report.errors == {"no connection (ConnectionRefusedError)": 7}


@contextmanager
def replying(reply: bytes, *, then_close: bool = True) -> Iterator[str]:
    """A server that answers any request with these bytes."""
    loop = asyncio.new_event_loop()
    urls: list[str] = []
    ready, stop = threading.Event(), asyncio.Event()
    answering: set[asyncio.Task[None] | None] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.add(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                writer.write(reply)
                await writer.drain()
                if then_close:
                    break
            writer.close()
            await writer.wait_closed()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.transport.abort()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        ready.set()
        await stop.wait()
        server.close()
        for task in answering:
            if task is not None:
                task.cancel()
        await asyncio.gather(*filter(None, answering), return_exceptions=True)
        await asyncio.sleep(0.01)  # aborted transports close in the loop's next rounds

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
PIECE = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'


def in_chunks(*pieces: bytes) -> bytes:
    chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(chunks)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (in_chunks(PIECE), "the connection was lost"),
        (in_chunks(PIECE) + b"0\r\n\r\n", "the stream ended early"),
        (in_chunks(b'data: {"error": {"message": "x"}}\n\n') + b"0\r\n\r\n", "an error event"),
        (b"no HTTP at all\r\n\r\n", "the response is not HTTP"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno", "HTTP 503"),
        (b"", "the connection was lost"),
    ],
)
def test_servers_that_misbehave(reply: bytes, error: str) -> None:
    with replying(reply) as url:
        report = bench_server(msgspec.structs.replace(CLOSED, url=url, model="m"))
    assert report.errors == {error: 7} and report.completed == 0


@pytest.mark.parametrize("close", [True, False], ids=["closing", "keeping"])
def test_a_server_without_usage_or_length(close: bool) -> None:
    body = PIECE * 3 + b"data: [DONE]\n\n"
    reply = HEAD + b"\r\n" + body if close else in_chunks(body) + b"0\r\n\r\n"
    with replying(reply, then_close=close) as url:
        report = bench_server(msgspec.structs.replace(CLOSED, url=url, model="m"))
    assert report.completed == 7 and report.tokens_counted_by == "chunks" and report.output_tokens == 21


def test_a_server_that_never_answers() -> None:
    with replying(b"", then_close=False) as url:
        settings = msgspec.structs.replace(CLOSED, url=url, model="m", num_requests=2, timeout=0.2)
        assert bench_server(settings).errors == {"no end within 0.2 s": 2}
