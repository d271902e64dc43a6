"""The openai package, unchanged, against a real socket."""

from __future__ import annotations

import asyncio

import openai
import pytest

from tests.server.running_server import run_async
from tests.server.test_chat import HELLO, TEXT


@pytest.fixture
def client(shared):
    with openai.OpenAI(base_url=f"{shared.url}/v1", api_key="any", max_retries=0) as client:
        yield client


def test_chat(client):
    reply = client.chat.completions.create(model="fake", messages=HELLO, logprobs=True, top_logprobs=1)
    assert reply.choices[0].message.content == TEXT
    assert reply.choices[0].finish_reason == "stop"
    assert reply.choices[0].logprobs.content[0].top_logprobs[0].token == "T"
    assert reply.usage.prompt_tokens_details.cached_tokens >= 0


def test_chat_stream(client):
    with client.chat.completions.create(
        model="fake", messages=HELLO, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == TEXT
    assert chunks[-1].usage.completion_tokens == len(TEXT.encode())


def test_chat_stream_helper(client):
    with client.chat.completions.stream(model="fake", messages=HELLO) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == TEXT


def test_completions(client):
    reply = client.completions.create(model="fake", prompt=["a", "b"], max_tokens=3, logprobs=2)
    assert [choice.text for choice in reply.choices] == ["The", "The"]
    assert reply.choices[0].logprobs.tokens == ["T", "h", "e"]
    chunks = list(client.completions.create(model="fake", prompt="a", max_tokens=3, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "The"


def test_completions_with_the_prompts_probabilities(client):
    reply = client.completions.create(
        model="fake",
        prompt="hello",
        max_tokens=0,
        logprobs=1,
        echo=True,
        extra_body={"prompt_logprobs": 1, "return_token_ids": True},
    )
    (choice,) = reply.choices
    assert (choice.text, choice.finish_reason) == ("hello", "length")
    assert choice.logprobs.tokens == ["<s>", "hello"]
    assert choice.logprobs.token_logprobs == [None, -1e-6]
    assert choice.prompt_logprobs[1]["260"]["rank"] == 7
    assert (choice.prompt_token_ids, choice.token_ids) == ([256, 260], [])
    best = client.completions.create(model="fake", prompt="a", max_tokens=3, n=2, best_of=3)
    assert [choice.text for choice in best.choices] == ["The", "2: "]


def test_models(client):
    assert [model.id for model in client.models.list()] == ["fake"]
    assert client.models.retrieve("fake").id == "fake"
    with pytest.raises(openai.NotFoundError) as missing:
        client.models.retrieve("other")
    assert missing.value.code == "model_not_found"


def test_errors_become_its_exceptions(client):
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="fake", messages=[])
    assert bad.value.param == "messages"
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="other", messages=HELLO)
    assert missing.value.code == "model_not_found"


def test_async_client(shared):
    async def main() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{shared.url}/v1", api_key="any", max_retries=0) as client:

            async def streamed() -> str:
                stream = await client.chat.completions.create(model="fake", messages=HELLO, stream=True)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            async def whole() -> str:
                return (
                    (await client.chat.completions.create(model="fake", messages=HELLO))
                    .choices[0]
                    .message.content
                )

            return list(await asyncio.gather(*(streamed() for _ in range(8)), *(whole() for _ in range(8))))

    assert run_async(main()) == [TEXT] * 16
