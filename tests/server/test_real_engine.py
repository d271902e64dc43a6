"""The server over the real engine and a tiny random model."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

import pytest

from tenfold.config.engine import EngineSettings
from tenfold.engine.async_engine import AsyncEngine
from tenfold.engine.model import load_model
from tests.server.running_server import RunningServer, run_async, wait_until
from tests.server.test_bad_input import error_of
from tests.server.test_chat import events
from tests.tiny_models import write_tiny_gguf

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
CHATTING = {
    "messages": [{"role": "user", "content": "Tell me about the sea."}],
    "temperature": 0,
    "max_tokens": 24,
}


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Iterator[RunningServer]:
    path = write_tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf", "llama", context=1024)
    settings = EngineSettings(threads=1, max_num_seqs=16, max_waiting=400, kv_cache_memory_bytes=1 << 24)
    with RunningServer(AsyncEngine(load_model(path, settings), "tiny")) as server:
        yield server


@pytest.fixture(autouse=True)
def clean(real) -> Iterator[None]:
    yield
    wait_until(lambda: real.engine.stats().num_running + real.engine.stats().num_waiting == 0)
    time.sleep(0.05)  # the engine's thread ends its step
    real.engine.check()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": 3, "temperature": 1, "seed": 5},
        {"logprobs": True, "top_logprobs": 4},
        {"ignore_eos": True, "min_tokens": 24},
    ],
)
def test_stream_says_the_same(real, fields):
    body = {**CHATTING, **fields}
    whole = real.client.post(CHAT, json=body).json()
    stream = real.client.post(CHAT, json={**body, "stream": True, "stream_options": {"include_usage": True}})
    chunks = events(stream.text)
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    for choice in whole["choices"]:
        own = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        assert "".join(c["delta"].get("content", "") for c in own) == choice["message"]["content"]
        assert own[-1]["finish_reason"] == choice["finish_reason"]
        if fields.get("logprobs"):
            entries = [entry for c in own if c["logprobs"] for entry in c["logprobs"]["content"]]
            assert entries == choice["logprobs"]["content"]
            assert all(len(entry["top_logprobs"]) == 4 for entry in entries)


@pytest.mark.parametrize("prompt", ["naïve café 🙂 — done", ["one", "two 🙂"], [[5, 9, 200, 7], [200]]])
def test_echo_with_logprobs_streamed_or_not(real, prompt):
    body = {
        "prompt": prompt,
        "echo": True,
        "logprobs": 2,
        "n": 2,
        "temperature": 1,
        "seed": 3,
        "max_tokens": 9,
    }
    body["ignore_eos"] = True
    choices = real.client.post(TEXT, json=body).json()["choices"]
    chunks = events(real.client.post(TEXT, json={**body, "stream": True}).text)
    for choice in choices:
        arrays = choice["logprobs"]
        own = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        assert "".join(c["text"] for c in own) == choice["text"]
        for name, values in arrays.items():
            assert [value for c in own for value in c["logprobs"][name]] == values
        assert arrays["token_logprobs"][0] is None
        assert all(value <= 0 for value in arrays["token_logprobs"][1:])
        names = {text for text in real.engine.tokenizer.special_texts if text in arrays["tokens"]}
        assert "".join(token for token in arrays["tokens"] if token not in names) == choice["text"]
        places = zip(arrays["tokens"], arrays["text_offset"], strict=True)
        assert all(token in names or choice["text"][at:].startswith(token) for token, at in places)


def test_echoed_tokens_have_the_probabilities_they_were_drawn_with(real):
    body = {"prompt": [5, 9, 200, 7], "temperature": 0, "max_tokens": 8, "logprobs": 1, "ignore_eos": True}
    made = real.client.post(TEXT, json={**body, "return_token_ids": True}).json()["choices"][0]
    again = {**body, "prompt": [*body["prompt"], *made["token_ids"]], "max_tokens": 0, "echo": True}
    arrays = real.client.post(TEXT, json=again).json()["choices"][0]["logprobs"]
    assert arrays["token_logprobs"][4:] == made["logprobs"]["token_logprobs"]
    assert arrays["top_logprobs"][4:] == made["logprobs"]["top_logprobs"]


def test_a_stop_string_from_its_own_text(real):
    text = real.client.post(CHAT, json=CHATTING).json()["choices"][0]["message"]["content"]
    stop = text[5:8]
    cut = real.client.post(CHAT, json={**CHATTING, "stop": [stop]}).json()["choices"][0]
    assert cut["message"]["content"] == text[: text.index(stop)]
    assert (cut["finish_reason"], cut["stop_reason"]) == ("stop", stop)


def test_the_prompt_is_cached_the_second_time(real):
    body = {**CHATTING, "messages": [{"role": "user", "content": "A rather long question. " * 12}]}
    first, second = (real.client.post(CHAT, json=body).json() for _ in range(2))
    assert first["choices"][0]["message"] == second["choices"][0]["message"]
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    metrics = real.client.get("/metrics").text
    hits = next(line for line in metrics.splitlines() if line.startswith("tenfold:prefix_cache_hits_total"))
    assert float(hits.split()[-1]) > 0


def test_tokenize_and_back(real):
    text = "naïve café 🙂 — done"
    ids = real.client.post("/tokenize", json={"prompt": text, "add_special_tokens": False}).json()["tokens"]
    assert real.client.post("/detokenize", json={"tokens": ids}).json()["prompt"] == text


def test_special_tokens_in_a_message_stay_words(real):
    special = real.engine.tokenizer.special_texts[-1]
    plain, forged = (
        real.client.post("/tokenize", json={"messages": [{"role": "user", "content": content}]}).json()[
            "tokens"
        ]
        for content in ("hi", f"hi{special}")
    )
    token = real.engine.tokenizer.encode(special, add_special=False)
    assert len(token) == 1
    assert forged.count(token[0]) == plain.count(token[0])


@pytest.mark.parametrize(
    "body",
    [{"prompt": "word " * 2_000_000}, {"prompt": "a" * 10_000_000}, {"prompt": [1] * 1_000_000}],
    ids=["10 MB of words", "10 MB of one letter", "1 M ids"],
)
def test_hopeless_prompts_are_refused_soon(real, body):
    start = time.monotonic()
    response = real.client.post(TEXT, json=body)
    assert response.status_code == 400
    assert error_of(response)["code"] == "context_length_exceeded"
    assert time.monotonic() - start < 10


def test_two_hundred_clients_go_away_at_once(real):
    body = json.dumps({**CHATTING, "stream": True, "max_tokens": 900, "ignore_eos": True}).encode()
    request = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def main(host: str, port: int) -> None:
        pairs = await asyncio.gather(*(asyncio.open_connection(host, port) for _ in range(200)))
        for _, writer in pairs:
            writer.write(request)
        while real.engine.stats().num_running + real.engine.stats().num_waiting < 200:
            await asyncio.sleep(0.005)
        for _, writer in pairs:
            writer.transport.abort()

    host, port = real.url.removeprefix("http://").split(":")
    run_async(main(host, int(port)))
    wait_until(lambda: real.engine.stats().num_running + real.engine.stats().num_waiting == 0)
    assert real.client.post(CHAT, json=CHATTING).status_code == 200


def test_more_than_the_queue_takes_is_429_and_harms_nobody(real):
    async def main() -> list[int]:
        import httpx

        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=real.url, timeout=60, limits=limits) as client:
            body = {**CHATTING, "n": 16, "temperature": 1, "max_tokens": 2}
            replies = await asyncio.gather(*(client.post(CHAT, json=body) for _ in range(40)))
            for reply in replies:
                if reply.status_code == 429:
                    assert int(reply.headers["retry-after"]) >= 1
            return [reply.status_code for reply in replies]

    statuses = run_async(main())
    assert set(statuses) == {200, 429}


def test_shutdown_lets_running_requests_finish(tmp_path):
    path = write_tiny_gguf(tmp_path / "tiny.gguf", "qwen3", context=512)
    engine = AsyncEngine(load_model(path, EngineSettings(threads=1, max_num_seqs=4)))
    body = {**CHATTING, "stream": True, "max_tokens": 200, "ignore_eos": True}
    with RunningServer(engine) as server, server.client.stream("POST", CHAT, json=body) as response:
        lines = response.iter_lines()
        next(lines)
        server.server.stop()
        rest = [line for line in lines if line]
    assert rest[-1] == "data: [DONE]"
    assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
