"""/tokenize, /detokenize, /tokenizer_info, /v1/models, /health, /version."""

from __future__ import annotations

from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer


def test_tokenize_prompt_and_messages(shared):
    post = shared.client.post
    assert post("/tokenize", json={"prompt": "hello!"}).json() == {
        "count": 3,
        "max_model_len": 512,
        "tokens": [256, 260, 33],
    }
    bare = post(
        "/tokenize", json={"prompt": "hello!", "add_special_tokens": False, "return_token_strs": True}
    ).json()
    assert bare["tokens"] == [260, 33]
    assert bare["token_strs"] == ["hello", "!"]
    chat = post("/tokenize", json={"messages": [{"role": "user", "content": "hello"}]}).json()
    assert chat["tokens"][0] == 258
    assert chat["count"] == len(chat["tokens"])


def test_detokenize_gives_the_text_back(shared):
    assert shared.client.post("/detokenize", json={"tokens": [256, 260, 33]}).json() == {
        "prompt": "<s>hello!"
    }
    refused = shared.client.post("/detokenize", json={"tokens": [1, 9999]})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "tokens[1]"


def test_the_tokenizer_tells_its_ends(shared):
    assert shared.client.get("/tokenizer_info").json() == {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "add_bos_token": True,
        "model_max_length": 512,
    }


def test_models_and_aliases():
    with RunningServer(FakeEngine(), served_model_names=("org/small", "small")) as server:
        names = [card["id"] for card in server.client.get("/v1/models").json()["data"]]
        assert names == ["org/small", "small"]
        card = server.client.get("/v1/models/org/small").json()
        assert (card["max_model_len"], card["root"], card["object"]) == (512, "fake", "model")
        assert server.client.get("/v1/models/other").status_code == 404
        reply = server.client.post("/v1/completions", json={"model": "small", "prompt": "a"}).json()
        assert reply["model"] == "small"
        assert server.client.post("/v1/completions", json={"model": "fake", "prompt": "a"}).status_code == 404


def test_health_tells_the_truth():
    with RunningServer(FakeEngine()) as server:
        assert server.client.get("/health").json() == {"status": "ok"}
        server.engine.dead = "the worker crashed"
        reply = server.client.get("/health")
        assert reply.status_code == 503
        assert reply.json()["reason"] == "the worker crashed"
        assert server.client.head("/health").status_code == 503
        assert server.client.get("/version").json()["version"]
