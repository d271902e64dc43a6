"""The anthropic package, unchanged, against a real socket."""

from __future__ import annotations

import json

import anthropic
import pytest

from tenfold.core.errors import EngineError
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer

TEXT = "The quick brown fox says: naïve café 🙂 — done."
HELLO = [{"role": "user", "content": "hello"}]
# Not every version of the package has these as arguments of their own.
SAMPLING = {"temperature": 0.5, "top_p": 0.9, "top_k": 5}
ASKING = {"model": "fake", "messages": HELLO, "max_tokens": 100}


def connect(server, key="any"):
    return anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0)


@pytest.fixture
def client(shared):
    with connect(shared) as client:
        yield client


def test_a_message(client):
    reply = client.messages.create(**ASKING)
    assert (reply.type, reply.role, reply.model) == ("message", "assistant", "fake")
    assert [(block.type, block.text) for block in reply.content] == [("text", TEXT)]
    assert (reply.stop_reason, reply.stop_sequence) == ("end_turn", None)
    assert reply.usage.output_tokens == len(TEXT.encode())


def test_usage_counts_cached_tokens_apart():
    with RunningServer(FakeEngine()) as server, connect(server) as client:
        first, second = (client.messages.create(**ASKING).usage for _ in range(2))
        assert first.cache_read_input_tokens == 0
        assert second.cache_read_input_tokens == first.input_tokens - 1
        assert second.input_tokens == 1
        count = client.messages.count_tokens(model="fake", messages=HELLO)
        assert count.input_tokens == first.input_tokens


@pytest.mark.parametrize(
    ("fields", "text", "reason", "sequence"),
    [
        ({"max_tokens": 3}, "The", "max_tokens", None),
        ({"stop_sequences": ["brown"]}, "The quick ", "stop_sequence", "brown"),
        ({"extra_body": SAMPLING}, TEXT, "end_turn", None),
    ],
)
def test_how_it_ends_whole_and_streamed(client, fields, text, reason, sequence):
    whole = client.messages.create(**{**ASKING, **fields})
    with client.messages.stream(**{**ASKING, **fields}) as stream:
        streamed = "".join(stream.text_stream)
        final = stream.get_final_message()
    for reply in (whole, final):
        assert (reply.content[0].text, reply.stop_reason, reply.stop_sequence) == (text, reason, sequence)
        assert reply.usage.output_tokens == whole.usage.output_tokens
    assert streamed == text
    assert final.usage.input_tokens + final.usage.cache_read_input_tokens == (
        whole.usage.input_tokens + whole.usage.cache_read_input_tokens
    )


def test_sampling_reaches_the_engine():
    with RunningServer(FakeEngine()) as server, connect(server) as client:
        client.messages.create(**ASKING, extra_body=SAMPLING, stop_sequences=["x", "y"])
        (request,) = server.engine.requests
        sampling = request.sampling
        assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 5)
        assert (sampling.stop, sampling.max_tokens) == (("x", "y"), 100)


def test_the_events_of_a_stream(shared):
    with shared.client.stream(
        "POST", "/v1/messages", json={**ASKING, "max_tokens": 3, "stream": True}
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        response.read()
    events = [block.split("\n") for block in response.text.strip().split("\n\n")]
    names = [lines[0].removeprefix("event: ") for lines in events]
    assert names == [
        "message_start",
        "ping",
        "content_block_start",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    data = [json.loads(lines[1].removeprefix("data: ")) for lines in events]
    assert [one["type"] for one in data] == names
    assert data[0]["message"]["content"] == []
    assert data[0]["message"]["stop_reason"] is None
    assert data[3]["delta"] == {"type": "text_delta", "text": "T"}
    assert data[-2]["delta"] == {"stop_reason": "max_tokens", "stop_sequence": None}


def test_the_prompt_is_the_chats(shared, client):
    client.messages.create(**{**ASKING, "system": "be brief"})
    assert shared.engine.chat_template.asked["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hello"},
    ]
    client.messages.create(**{**ASKING, "messages": [*HELLO, {"role": "assistant", "content": "Well,"}]})
    assert shared.engine.chat_template.asked["continue"] is True


@pytest.mark.parametrize(
    ("fields", "error", "kind", "words"),
    [
        ({"messages": []}, anthropic.BadRequestError, "invalid_request_error", "messages is empty"),
        ({"max_tokens": 0}, anthropic.BadRequestError, "invalid_request_error", "max_tokens"),
        ({"max_tokens": 2000}, anthropic.BadRequestError, "invalid_request_error", "context length"),
        (
            {"extra_body": {"temperature": -1}},
            anthropic.BadRequestError,
            "invalid_request_error",
            "temperature",
        ),
        ({"model": "claude"}, anthropic.NotFoundError, "not_found_error", "'claude' is not served"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]}
                ]
            },
            anthropic.BadRequestError,
            "invalid_request_error",
            "'image'",
        ),
    ],
)
def test_errors_in_its_shape(client, fields, error, kind, words):
    with pytest.raises(error) as refused:
        client.messages.create(**{**ASKING, **fields})
    assert refused.value.body["type"] == "error"
    assert refused.value.body["error"]["type"] == kind
    assert words in refused.value.body["error"]["message"]


def test_max_tokens_is_required(shared):
    response = shared.client.post("/v1/messages", json={"model": "fake", "messages": HELLO})
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "max_tokens is missing; the request must give it."


def test_a_wrong_method_is_told_in_its_shape_too(shared):
    response = shared.client.get("/v1/messages")
    assert (response.status_code, response.json()["type"]) == (405, "error")


def test_keys():
    with RunningServer(FakeEngine(), api_keys=("secret",)) as server:
        with connect(server, "secret") as client:
            assert client.messages.create(**ASKING).content[0].text == TEXT
        with anthropic.Anthropic(base_url=server.url, auth_token="secret", max_retries=0) as client:
            assert client.messages.create(**ASKING).content[0].text == TEXT
        with connect(server, "wrong") as client, pytest.raises(anthropic.AuthenticationError) as refused:
            client.messages.create(**ASKING)
        assert refused.value.body["error"]["type"] == "authentication_error"
        assert (
            server.client.post("/v1/chat/completions", json=ASKING).json()["error"]["code"]
            == "invalid_api_key"
        )


def test_an_overload_and_a_failure():
    engine = FakeEngine()
    engine.num_waiting = engine.max_waiting
    with RunningServer(engine) as server, connect(server) as client:
        with pytest.raises(anthropic.RateLimitError) as refused:
            client.messages.create(**ASKING)
        assert refused.value.body["error"]["type"] == "rate_limit_error"
    with (
        RunningServer(FakeEngine(fail_after=4, error=EngineError("It broke."))) as server,
        connect(server) as client,
    ):
        with pytest.raises(anthropic.InternalServerError) as failed:
            client.messages.create(**ASKING)
        assert failed.value.body["error"] == {"type": "api_error", "message": "It broke."}
        with (
            pytest.raises(anthropic.APIStatusError, match="It broke"),
            client.messages.stream(**ASKING) as stream,
        ):
            stream.get_final_message()
