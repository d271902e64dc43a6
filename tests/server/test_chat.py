"""/v1/chat/completions: shapes, and that streaming says the same as not streaming."""

from __future__ import annotations

import json

import pytest

from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer

HELLO = [{"role": "user", "content": "hello world"}]
TEXT = "The quick brown fox says: naïve café 🙂 — done."


def events(text: str) -> list[dict]:
    parts = text.split("\n\n")
    assert parts.pop() == ""
    assert parts[-1] == "data: [DONE]"
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-1]]


def post(server: RunningServer, **body):
    return server.client.post("/v1/chat/completions", json={"model": "fake", "messages": HELLO, **body})


def test_whole_reply(shared):
    reply = post(shared).json()
    assert reply["object"] == "chat.completion"
    assert reply["id"].startswith("chatcmpl-")
    assert reply["model"] == "fake"
    assert reply["system_fingerprint"]
    (choice,) = reply["choices"]
    assert choice["message"] == {"role": "assistant", "content": TEXT, "refusal": None}
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "stop", None)
    usage = reply["usage"]
    assert usage["completion_tokens"] == len(TEXT.encode())
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_prompt_is_the_template_without_a_second_begin_token():
    with RunningServer(FakeEngine()) as server:
        post(server)
        ids = server.engine.requests[0].prompt_token_ids
    assert server.engine.tokenizer.decode(ids, skip_special=False) == (
        "<|im_start|>user\nhello world<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": 3},
        {"max_tokens": 9},
        {"max_completion_tokens": 9, "max_tokens": 3},
        {"stop": "fox"},
        {"stop": ["café", "zebra"]},
        {"logprobs": True, "top_logprobs": 2, "max_tokens": 40},
        {"logprobs": True},
    ],
)
def test_stream_says_the_same(shared, fields):
    whole = post(shared, **fields).json()
    response = post(shared, stream=True, stream_options={"include_usage": True}, **fields)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    chunks = events(response.text)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert chunks[-1]["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"]
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    for choice in whole["choices"]:
        own = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        assert own[0]["delta"] == {"role": "assistant", "content": ""}
        assert all("role" not in c["delta"] for c in own[1:])
        assert "".join(c["delta"].get("content", "") for c in own) == choice["message"]["content"]
        assert [c["finish_reason"] for c in own if c["finish_reason"]] == [choice["finish_reason"]]
        assert own[-1]["stop_reason"] == choice["stop_reason"]
        entries = [entry for c in own if c["logprobs"] for entry in c["logprobs"]["content"]]
        assert entries == (choice["logprobs"]["content"] if choice["logprobs"] else [])


def test_logprobs_shape(shared):
    (choice,) = post(shared, logprobs=True, top_logprobs=2, max_tokens=1).json()["choices"]
    assert choice["logprobs"]["content"] == [
        {
            "token": "T",
            "logprob": -0.5,
            "bytes": [84],
            "top_logprobs": [
                {"token": "T", "logprob": 0.0, "bytes": [84]},
                {"token": "U", "logprob": -1.0, "bytes": [85]},
            ],
        }
    ]


def test_usage_counts_cached_tokens_and_the_prompt_once():
    with RunningServer(FakeEngine()) as server:
        first = post(server, n=2).json()["usage"]
        second = post(server, n=2).json()["usage"]
    assert first["prompt_tokens_details"] == {"cached_tokens": 0}
    assert second["prompt_tokens_details"] == {"cached_tokens": second["prompt_tokens"] - 1}
    assert first["prompt_tokens"] == len(server.engine.requests[0].prompt_token_ids)


def test_continuous_usage(shared):
    chunks = events(
        post(shared, stream=True, max_tokens=5, stream_options={"continuous_usage_stats": True}).text
    )
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts)
    assert counts[-1] == 5


def test_gathered_outputs_cost_one_write():
    with (
        RunningServer(FakeEngine("x" * 64, burst=16)) as server,
        server.client.stream(
            "POST", "/v1/chat/completions", json={"messages": HELLO, "stream": True}
        ) as response,
    ):
        writes = [part for part in response.iter_raw() if part]
    assert len(writes) <= 10
    assert b"".join(writes).count(b"data: ") == 64 + 2


def test_fields_reach_the_engine():
    fields = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.1,
        "typical_p": 0.95,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.2,
        "frequency_penalty": -0.3,
        "seed": 11,
        "min_tokens": 2,
        "ignore_eos": True,
        "include_stop_str_in_output": True,
        "skip_special_tokens": False,
    }
    with RunningServer(FakeEngine(defaults={"temperature": 0.6, "top_k": 64, "max_tokens": 3})) as server:
        body = {**fields, "logit_bias": {"65": 5}, "stop_token_ids": [1], "priority": -3, "cache_salt": "me"}
        assert post(server, **body, unknown_field={"is": "ignored"}).status_code == 200
        assert post(server, temperature=None).status_code == 200
    given, default = server.engine.requests
    for name, value in fields.items():
        assert getattr(given.sampling, name) == value, name
    assert given.sampling.logit_bias == {65: 5.0}
    assert given.sampling.stop_token_ids == (1,)
    assert (given.priority, given.cache_salt) == (-3, "me")
    assert (default.sampling.temperature, default.sampling.top_k) == (0.6, 64)
    assert default.sampling.max_tokens is None


def test_messages_are_made_plain_for_the_template():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    tools = [{"type": "function", "function": {"name": "f"}}]
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "1", "tool_call_id": "1"},
    ]
    with RunningServer(FakeEngine()) as server:
        kwargs = {"enable_thinking": False}
        reply = post(server, messages=messages, tools=tools, tool_choice="auto", chat_template_kwargs=kwargs)
        assert reply.status_code == 200
        asked = server.engine.chat_template.asked
        assert asked["tools"] == tools
        assert asked["enable_thinking"] is False
        assert asked["messages"][0] == {"role": "system", "content": "a\nb"}
        assert asked["messages"][1]["content"] == ""
        assert asked["messages"][1]["tool_calls"][0]["function"]["arguments"] == {"x": 1}
        assert asked["messages"][2] == {"role": "tool", "content": "1", "tool_call_id": "1"}
        post(server, tools=tools, tool_choice="none")
        assert server.engine.chat_template.asked["tools"] is None


def test_long_prompts_take_the_thread_and_give_the_same(shared):
    server_text = "hello world" * 4000
    with RunningServer(FakeEngine(max_model_len=20000)) as server:
        reply = post(server, messages=[{"role": "user", "content": server_text}], max_tokens=1)
    assert reply.status_code == 200
    assert reply.json()["usage"]["prompt_tokens"] > 8000
