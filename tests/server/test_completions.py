"""/v1/completions: prompts of every form, echo, arrays of log probabilities, streaming."""

from __future__ import annotations

import pytest

from tests.server.fake_engine import BOS, FakeEngine
from tests.server.running_server import RunningServer
from tests.server.test_chat import HELLO, TEXT, events


def post(server, **body):
    return server.client.post("/v1/completions", json={"prompt": "hello", **body})


def test_whole_reply(shared):
    reply = post(shared).json()
    assert reply["object"] == "text_completion"
    assert reply["id"].startswith("cmpl-")
    assert reply["choices"] == [
        {"index": 0, "text": TEXT[:16], "logprobs": None, "finish_reason": "length", "stop_reason": None}
    ]
    assert reply["usage"]["prompt_tokens"] == 2  # the begin token and one word
    assert reply["usage"]["completion_tokens"] == 16


@pytest.mark.parametrize(
    ("prompt", "count"),
    [("hello", 1), (["hello", " world", "x"], 3), ([260, 261], 1), ([[260], [261, 65]], 2)],
)
@pytest.mark.parametrize("n", [1, 2])
def test_every_form_of_prompt_streamed_or_not(shared, prompt, count, n):
    fields = {"prompt": prompt, "n": n, "echo": True, "max_tokens": 100}
    whole = post(shared, **fields).json()
    assert [choice["index"] for choice in whole["choices"]] == list(range(count * n))
    chunks = events(post(shared, stream=True, stream_options={"include_usage": True}, **fields).text)
    texts = [""] * (count * n)
    for chunk in chunks:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == [choice["text"] for choice in whole["choices"]]
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert chunks[-1]["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"]


def test_echo_begins_with_each_prompt(shared):
    texts = [c["text"] for c in post(shared, prompt=["hello", " world"], echo=True, n=2).json()["choices"]]
    assert [
        text.startswith(start) for text, start in zip(texts, ["hello"] * 2 + [" world"] * 2, strict=True)
    ] == [True] * 4
    assert texts[1] == "hello" + f"1: {TEXT}"[:16]


def test_logprob_arrays(shared):
    (choice,) = post(shared, logprobs=1, max_tokens=4).json()["choices"]
    assert choice["logprobs"] == {
        "tokens": ["T", "h", "e", " "],
        "token_logprobs": [-0.5] * 4,
        "top_logprobs": [{"T": -0.5}, {"h": -0.5}, {"e": -0.5}, {" ": -0.5}],
        "text_offset": [0, 1, 2, 3],
    }
    chunks = events(post(shared, logprobs=1, max_tokens=4, stream=True).text)
    parts = [choice["logprobs"] for chunk in chunks for choice in chunk["choices"]]
    for name in choice["logprobs"]:
        assert [item for part in parts for item in part[name]] == choice["logprobs"][name]


ARRAYS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


def streamed(reply):
    """The text and arrays of each choice of a stream."""
    texts, arrays = {}, {}
    for chunk in events(reply.text):
        for choice in chunk["choices"]:
            index = choice["index"]
            texts[index] = texts.get(index, "") + choice["text"]
            for name in ARRAYS:
                arrays.setdefault(index, {}).setdefault(name, []).extend(choice["logprobs"][name])
    return texts, arrays


def test_echo_with_logprobs(shared):
    (choice,) = post(shared, prompt="hello é", echo=True, logprobs=1, max_tokens=2).json()["choices"]
    assert choice["text"] == "hello éTh"
    assert choice["logprobs"] == {
        "tokens": ["<s>", "hello", " ", "", "é", "T", "h"],
        "token_logprobs": [None, -1e-6, -2e-6, -3e-6, -4e-6, -0.5, -0.5],
        "top_logprobs": [
            None,
            {"hello": -1e-6, " world": 0.0},
            {" ": -2e-6, "!": 0.0},
            {"": -3e-6, "bytes:\\xc4": 0.0},
            {"é": -4e-6, "bytes:\\xaa": 0.0},
            {"T": -0.5},
            {"h": -0.5},
        ],
        "text_offset": [0, 0, 5, 6, 6, 7, 8],
    }


@pytest.mark.parametrize("prompt", ["hello é<|im_end|>", ["hi", "é"], [260, 0xC3], [[BOS, 65], [0xF0, 0x9F]]])
@pytest.mark.parametrize("logprobs", [0, 2])
@pytest.mark.parametrize("max_tokens", [0, 1, 45])
def test_arrays_are_those_of_the_text(shared, prompt, logprobs, max_tokens):
    fields = {"prompt": prompt, "echo": True, "logprobs": logprobs, "max_tokens": max_tokens, "n": 2}
    choices = post(shared, **fields).json()["choices"]
    texts, arrays = streamed(post(shared, stream=True, **fields))
    for choice in choices:
        found = choice["logprobs"]
        assert texts[choice["index"]] == choice["text"]
        assert arrays[choice["index"]] == found
        # The only names that are no part of the text are those of left out special tokens.
        hidden = {"<s>"}
        shown = [token for token in found["tokens"] if token not in hidden]
        assert "".join(shown) == choice["text"]
        for token, offset in zip(found["tokens"], found["text_offset"], strict=True):
            if token not in hidden:
                assert choice["text"][offset : offset + len(token)] == token
        assert found["token_logprobs"][0] is found["top_logprobs"][0] is None
        assert all(len(top) <= logprobs + 1 for top in found["top_logprobs"][1:])


def test_what_lm_eval_asks_for(shared):
    """Its log-likelihoods: ids of context and continuation, one more token, which it leaves out again."""
    body = {"prompt": [[260, 65, 66], [65, 66, 67, 68]], "echo": True, "logprobs": 1, "seed": 1234}
    reply = post(shared, model="fake", temperature=0, max_tokens=1, **body).json()
    for choice, context in zip(reply["choices"], (1, 2), strict=True):
        arrays = choice["logprobs"]
        continuation = arrays["token_logprobs"][context:-1]
        assert len(continuation) == 2
        assert all(isinstance(value, float) for value in continuation)
        for value, top in zip(continuation, arrays["top_logprobs"][context:-1], strict=True):
            assert value in top.values()
    assert post(shared, max_tokens=0, **body).json()["usage"]["completion_tokens"] == 0


def test_completions_that_come_before_the_prompts_probabilities_wait():
    with RunningServer(FakeEngine(backwards=True)) as server:
        fields = {"prompt": ["hello", "x"], "echo": True, "logprobs": 1, "n": 3, "max_tokens": 4}
        choices = post(server, **fields).json()["choices"]
        texts, arrays = streamed(post(server, stream=True, **fields))
    assert texts == {choice["index"]: choice["text"] for choice in choices}
    assert arrays == {choice["index"]: choice["logprobs"] for choice in choices}


def test_prompt_logprobs_in_vllms_shape(shared):
    body = {"prompt": ["hello", "A"], "prompt_logprobs": 1, "max_tokens": 1}
    first, second = post(shared, **body).json()["choices"]
    assert first["prompt_logprobs"] == [
        None,
        {
            "260": {"logprob": -1e-6, "rank": 7, "decoded_token": "hello"},
            "261": {"logprob": 0.0, "rank": 1, "decoded_token": " world"},
        },
    ]
    assert second["prompt_logprobs"][1]["65"]["decoded_token"] == "A"
    chat = shared.client.post("/v1/chat/completions", json={"messages": HELLO, "prompt_logprobs": 0}).json()
    assert len(chat["prompt_logprobs"]) == chat["usage"]["prompt_tokens"]
    assert [len(found) for found in chat["prompt_logprobs"][1:]] == [1] * (len(chat["prompt_logprobs"]) - 1)
    assert "prompt_logprobs" not in post(shared).json()["choices"][0]


def test_token_ids_of_completions(shared):
    body = {"prompt": [[BOS, 260], [65, 66]], "return_token_ids": True, "max_tokens": 3}
    choices = post(shared, **body).json()["choices"]
    assert [choice["prompt_token_ids"] for choice in choices] == [[BOS, 260], [65, 66]]
    assert [choice["token_ids"] for choice in choices] == [list(b"The")] * 2
    parts = [c for chunk in events(post(shared, stream=True, **body).text) for c in chunk["choices"]]
    for choice in choices:
        own = [part for part in parts if part["index"] == choice["index"]]
        assert own[0]["prompt_token_ids"] == choice["prompt_token_ids"]
        assert not any("prompt_token_ids" in part for part in own[1:])
        assert [token for part in own for token in part["token_ids"]] == choice["token_ids"]


def test_token_ids_of_chats(shared):
    body = {"messages": HELLO, "return_token_ids": True, "max_tokens": 3}
    reply = shared.client.post("/v1/chat/completions", json=body).json()
    assert reply["choices"][0]["token_ids"] == list(b"The")
    assert len(reply["prompt_token_ids"]) == reply["usage"]["prompt_tokens"]
    chunks = events(shared.client.post("/v1/chat/completions", json={**body, "stream": True}).text)
    assert chunks[0]["prompt_token_ids"] == reply["prompt_token_ids"]
    ids = [token for chunk in chunks for c in chunk["choices"] for token in c.get("token_ids", ())]
    assert ids == list(b"The")


def test_more_scores_than_a_reply_should_hold_are_refused(shared):
    body = {"prompt": [[65] * 500] * 128, "echo": True, "logprobs": 20, "max_tokens": 0}
    refused = post(shared, **body)
    assert refused.status_code == 400
    assert "1344000" in refused.json()["error"]["message"]
    assert post(shared, **{**body, "logprobs": 1}).status_code == 200


@pytest.mark.parametrize("logprobs", [None, 1])
def test_best_of_returns_the_likeliest(shared, logprobs):
    # The fake engine's second completion is the least likely of all.
    fields = {"n": 2, "best_of": 3, "max_tokens": 20, "prompt": ["hello", "x"], "logprobs": logprobs}
    reply = post(shared, **fields).json()
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2, 3]
    assert [choice["text"] for choice in reply["choices"]] == [TEXT[:20], f"2: {TEXT}"[:20]] * 2
    assert reply["usage"]["completion_tokens"] == 2 * 3 * 20
    assert all((choice["logprobs"] is None) == (logprobs is None) for choice in reply["choices"])
    only = post(shared, best_of=2, max_tokens=3).json()["choices"]
    assert [choice["text"] for choice in only] == ["The"]


def test_best_of_equal_to_n_is_taken(shared):
    assert post(shared, best_of=2, n=2).status_code == 200
    assert post(shared, best_of=1, stream=True).status_code == 200
