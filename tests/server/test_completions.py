"""/v1/completions: prompts of every form, echo, arrays of log probabilities, streaming."""

from __future__ import annotations

import pytest

from tests.server.test_chat import TEXT, events


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


def test_best_of_equal_to_n_is_taken(shared):
    assert post(shared, best_of=2, n=2).status_code == 200
