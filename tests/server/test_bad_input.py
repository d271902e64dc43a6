"""Bad requests get a 4xx in OpenAI's shape that names the field; nothing reaches the engine."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer

CHAT, TEXT, TOKENIZE = "/v1/chat/completions", "/v1/completions", "/tokenize"
HELLO = [{"role": "user", "content": "hi"}]


def chat(**fields):
    return json.dumps({"messages": HELLO, **fields}).encode()


def text(**fields):
    return json.dumps({"prompt": "hi", **fields}).encode()


def error_of(response):
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert error["message"][-1] == "."
    return error


BAD_JSON = [
    b"",
    b"{",
    b"nonsense",
    b'{"messages": [}',
    chat() + b"x",
    b"\xef\xbb\xbf" + chat(),
    b'{"messages": ' + b"[" * 100_000,
    b'{"messages": [], "x": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    b'{"temperature": NaN, "messages": []}',
]

BAD_FIELDS = [
    (CHAT, b"[]", None),
    (CHAT, chat(seed=10**400), "seed"),
    (CHAT, chat(stop=["fine", "x" * 1025]), "stop"),
    (CHAT, chat(cache_salt="x" * 1025), "cache_salt"),
    (CHAT, chat(max_completion_tokens=-1), "max_completion_tokens"),
    (TEXT, text(max_tokens=-(10**400)), "max_tokens"),
    (TEXT, text(prompt=["a"] * 100, n=3), "n"),
    (TEXT, text(logit_bias={str(token): 1 for token in range(1025)}), "logit_bias"),
    (CHAT, b"{}", "messages"),
    (CHAT, b'{"messages": []}', "messages"),
    (CHAT, b'{"messages": [{}]}', "messages[0].role"),
    (CHAT, b'{"messages": [{"role": 1, "content": "x"}]}', "messages[0].role"),
    (CHAT, b'{"messages": [{"role": "wizard", "content": "x"}]}', "messages[0].role"),
    (CHAT, b'{"messages": [{"role": "user", "content": 5}]}', "messages[0].content"),
    (CHAT, b'{"messages": [{"role": "user"}]}', "messages[0].content"),
    (CHAT, b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', "messages[0].content[0]"),
    (CHAT, b'{"messages": [{"role": "user", "content": [{"type": "text"}]}]}', "messages[0].content[0].text"),
    (CHAT, b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "messages[0].content"),
    (CHAT, b'{"messages": [{"role": "user", "content": "a\\udc00b"}]}', "messages[0].content"),
    (CHAT, b'{"messages": [{"role": "user", "content": "\xff"}]}', "messages[0].content"),
    (CHAT, b'{"messages": [{"role": "user", "content": "\xed\xa0\x80"}]}', "messages[0].content"),
    (CHAT, chat(temperature="hot"), "temperature"),
    (CHAT, chat(temperature=-1), "temperature"),
    (CHAT, chat(temperature=10**30), "temperature"),
    (CHAT, b'{"messages": [{"role": "user", "content": "x"}], "temperature": 1e999}', "temperature"),
    (CHAT, chat(top_p=0), "top_p"),
    (CHAT, chat(top_p=1.5), "top_p"),
    (CHAT, chat(top_k=-5), "top_k"),
    (CHAT, chat(n=0), "n"),
    (CHAT, chat(n=10**6), "n"),
    (CHAT, chat(n=10**25), "n"),
    (CHAT, b'{"messages": [], "n": 1' + b"0" * 5000 + b"}", "n"),
    (CHAT, chat(n=1.5), "n"),
    (CHAT, chat(n=True), "n"),
    (CHAT, chat(max_tokens=0), "max_tokens"),
    (CHAT, chat(max_tokens=-1), "max_tokens"),
    (CHAT, chat(max_tokens=10**30), "max_tokens"),
    (CHAT, chat(min_tokens=5, max_tokens=2), "min_tokens"),
    (CHAT, chat(seed=2**70), "seed"),
    (CHAT, chat(priority=2**40), "priority"),
    (CHAT, chat(presence_penalty=3), "presence_penalty"),
    (CHAT, chat(stop=5), "stop"),
    (CHAT, chat(stop=[1]), "stop[0]"),
    (CHAT, chat(stop=["a"] * 100), "stop"),
    (CHAT, chat(stop=""), "stop"),
    (CHAT, chat(stop_token_ids=[9999]), "stop_token_ids"),
    (CHAT, chat(logit_bias={"x": 1}), "logit_bias"),
    (CHAT, chat(logit_bias={"1": 1000}), "logit_bias[1]"),
    (CHAT, chat(logit_bias={"99999": 1}), "logit_bias"),
    (CHAT, chat(logit_bias=[1]), "logit_bias"),
    (CHAT, chat(top_logprobs=2), "top_logprobs"),
    (CHAT, chat(logprobs=True, top_logprobs=21), "top_logprobs"),
    (CHAT, chat(logprobs=3), "logprobs"),
    (CHAT, chat(stream_options={"include_usage": True}), "stream_options"),
    (CHAT, chat(tool_choice="required", tools=[]), "tool_choice"),
    (CHAT, chat(tool_choice={"type": "function"}), "tool_choice"),
    (CHAT, chat(response_format={"type": "json_schema"}), "response_format.json_schema"),
    (CHAT, chat(modalities=["audio"]), "modalities"),
    (CHAT, chat(chat_template="{{ 1 }}"), "chat_template"),
    (CHAT, chat(chat_template_kwargs={"messages": []}), "chat_template_kwargs.messages"),
    (CHAT, chat(prompt_logprobs=21), "prompt_logprobs"),
    (CHAT, chat(prompt_logprobs=1, stream=True), "prompt_logprobs"),
    (CHAT, json.dumps({"messages": [{"role": "user", "content": "refuse me"}]}).encode(), "messages"),
    (TEXT, b"{}", "prompt"),
    (TEXT, text(prompt=[]), "prompt"),
    (TEXT, text(prompt=None), "prompt"),
    (TEXT, text(prompt={"a": 1}), "prompt"),
    (TEXT, text(prompt=[1, "a"]), "prompt[1]"),
    (TEXT, text(prompt=[["a"]]), "prompt[0][0]"),
    (TEXT, text(prompt=[1, 9999]), "prompt[1]"),
    (TEXT, text(prompt=[1, 10**30]), "prompt[1]"),
    (TEXT, text(prompt=[-1]), "prompt[0]"),
    (TEXT, text(prompt=[[1], []]), "prompt[1]"),
    (TEXT, text(prompt=["a"] * 300), "prompt"),
    (TEXT, text(prompt="", add_special_tokens=False), "prompt"),
    (TEXT, text(suffix="x"), "suffix"),
    (TEXT, text(best_of=3, stream=True), "best_of"),
    (TEXT, text(best_of=2, n=3), "best_of"),
    (TEXT, text(best_of=65), "best_of"),
    (TEXT, text(best_of=64, prompt=["a"] * 5), "best_of"),
    (TEXT, text(logprobs=50), "logprobs"),
    (TEXT, text(echo=True, logprobs=1, prompt_logprobs=-1), "prompt_logprobs"),
    (TOKENIZE, b"{}", "prompt"),
    (TOKENIZE, json.dumps({"prompt": "a", "messages": HELLO}).encode(), "prompt"),
]


@pytest.mark.parametrize("body", BAD_JSON, ids=range(len(BAD_JSON)))
@pytest.mark.parametrize("path", [CHAT, TEXT, TOKENIZE, "/detokenize"])
def test_malformed_json(shared, path, body):
    before = len(shared.engine.requests)
    response = shared.client.post(path, content=body)
    assert response.status_code == 400
    assert error_of(response)["type"] == "invalid_request_error"
    assert len(shared.engine.requests) == before


@pytest.mark.parametrize(("path", "body", "param"), BAD_FIELDS, ids=range(len(BAD_FIELDS)))
def test_bad_field_is_named(shared, path, body, param):
    before = len(shared.engine.requests)
    response = shared.client.post(path, content=body)
    assert response.status_code == 400, response.text
    error = error_of(response)
    assert error["param"] == param
    if param is not None:
        assert param.split("[")[0].split(".")[0] in error["message"]
    assert len(shared.engine.requests) == before


def test_unknown_model(shared):
    response = shared.client.post(CHAT, content=chat(model="gpt-9"))
    assert response.status_code == 404
    assert error_of(response)["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, chat(messages=[{"role": "user", "content": "x" * 600}])),
        (CHAT, chat(max_tokens=511)),
        (TEXT, text(prompt="x" * 600)),
        (TEXT, text(prompt=[1] * 600)),
        (TEXT, text(prompt=[1] * 1_000_000)),
        (TEXT, text(prompt="hello world " * 850_000)),
        (CHAT, chat(messages=[{"role": "user", "content": "y" * 10_000_000}])),
        (CHAT, chat(messages=[{"role": "user", "content": "y"}] * 100_000)),
    ],
    ids=["chat", "max_tokens", "text", "ids", "million ids", "10 MB text", "10 MB chat", "100k messages"],
)
def test_too_long(shared, path, body):
    response = shared.client.post(path, content=body)
    assert response.status_code == 400
    error = error_of(response)
    assert error["code"] == "context_length_exceeded"
    assert "512" in error["message"]


def test_hopeless_prompts_are_not_tokenized():
    with RunningServer(FakeEngine()) as server:
        server.client.post(TEXT, content=text(prompt="hello world " * 800_000))
        assert server.engine.tokenizer.encoded_chars == 0


def test_no_template():
    with RunningServer(FakeEngine(chat=False)) as server:
        error = error_of(server.client.post(CHAT, content=chat()))
        assert "/v1/completions" in error["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("POST", "/v1/nowhere", 404),
        ("GET", CHAT, 405),
        ("DELETE", "/v1/models", 405),
    ],
)
def test_wrong_route_or_method(shared, method, path, status):
    response = shared.client.request(method, path)
    assert response.status_code == status
    message = error_of(response)["message"]
    assert path in message
    assert status == 405 or f"paths are {CHAT}, /v1/completions, " in message


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
_SAMPLING = (
    "n",
    "temperature",
    "top_k",
    "min_p",
    "max_tokens",
    "seed",
    "stop",
    "stop_token_ids",
    "logit_bias",
)
_OTHERS = ("messages", "prompt", "model", "logprobs", "stream", "stream_options", "tools", "echo", "tokens")
_FORMS = ("response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice")
_names = st.sampled_from((*_SAMPLING, *_OTHERS, *_FORMS))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from([CHAT, TEXT, TOKENIZE, "/detokenize"]),
    fields=st.dictionaries(_names, _json, max_size=4),
)
def test_any_json_gets_an_answer_that_is_no_server_error(shared, path, fields):
    body = {"messages": HELLO, "prompt": "hi", **fields} if path in (CHAT, TEXT) else fields
    response = shared.client.post(path, content=json.dumps(body))
    assert response.status_code in (200, 400, 404)
    if response.status_code != 200:
        error_of(response)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_to_a_body_gets_an_answer(shared, data):
    body = bytearray(chat(logit_bias={"1": 2}, stop=["é"], tools=[{"a": [1, 2]}], max_tokens=3))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    response = shared.client.post(CHAT, content=bytes(body))
    assert response.status_code in (200, 400, 404)
