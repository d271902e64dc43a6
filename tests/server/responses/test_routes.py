"""/v1/responses through the openai package and by hand, on a real socket."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import openai
import pytest

from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer, wait_until
from tests.server.test_chat import TEXT
from tests.server.test_tools import CALL, serve


def client_of(server: RunningServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)


@pytest.fixture
def client(shared):
    with client_of(shared) as client:
        yield client


def prompt_of(server: RunningServer, number: int = -1) -> str:
    ids = server.engine.requests[number].prompt_token_ids
    return server.engine.tokenizer.decode(ids, skip_special=False)


def test_whole(client) -> None:
    reply = client.responses.create(model="fake", input="hello", metadata={"a": "b"})
    assert reply.output_text == TEXT
    assert (reply.status, reply.object, reply.model, reply.metadata) == (
        "completed",
        "response",
        "fake",
        {"a": "b"},
    )
    assert reply.usage.output_tokens == len(TEXT.encode())
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens
    assert reply.output[0].status == "completed"


def test_cut_short(client) -> None:
    reply = client.responses.create(model="fake", input="hello", max_output_tokens=3)
    assert (reply.status, reply.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert (reply.output_text, reply.output[0].status) == ("The", "incomplete")


def test_streamed_says_what_whole_says(client) -> None:
    events = list(client.responses.create(model="fake", input="hello", stream=True))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == TEXT
    final = events[-1].response
    assert final.output_text == TEXT and final.usage.output_tokens == len(TEXT.encode())
    assert client.responses.retrieve(final.id).output_text == TEXT


def test_stream_helper(client) -> None:
    with client.responses.stream(model="fake", input="hello") as stream:
        assert stream.get_final_response().output_text == TEXT


def test_goes_on_from_an_earlier_one() -> None:
    with RunningServer(FakeEngine(text="yes")) as server, client_of(server) as client:
        first = client.responses.create(model="fake", input="one", instructions="be brief")
        second = client.responses.create(model="fake", input="two", previous_response_id=first.id)
        assert prompt_of(server) == (
            "<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n"
            "<|im_start|>user\ntwo<|im_end|>\n<|im_start|>assistant\n"
        )
        assert second.previous_response_id == first.id
        assert client.responses.input_items.list(second.id).data[0].content == "two"
        client.responses.delete(first.id)
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model="fake", input="x", previous_response_id=second.id)
        assert refused.value.code == "previous_response_not_found"
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(first.id)


def test_not_stored_if_not_wanted(client) -> None:
    reply = client.responses.create(model="fake", input="hello", store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(reply.id)


def test_log_probabilities(client) -> None:
    reply = client.responses.create(
        model="fake",
        input="hello",
        max_output_tokens=3,
        top_logprobs=1,
        include=["message.output_text.logprobs"],
    )
    assert [entry.token for entry in reply.output[0].content[0].logprobs] == ["T", "h", "e"]


def test_counts_an_input(shared, client) -> None:
    counted = shared.client.post("/v1/responses/input_tokens", json={"input": "hello"}).json()
    assert counted["object"] == "response.input_tokens"
    assert counted["input_tokens"] == client.responses.create(model="fake", input="hello").usage.input_tokens


def test_background_is_asked_for_later() -> None:
    with RunningServer(FakeEngine(delay=0.002)) as server, client_of(server) as client:
        reply = client.responses.create(model="fake", input="hello", background=True)
        assert reply.status == "in_progress"
        wait_until(lambda: client.responses.retrieve(reply.id).status == "completed")
        assert client.responses.retrieve(reply.id).output_text == TEXT
        server.engine._delay = 0.05
        long = client.responses.create(model="fake", input="hello again", background=True)
        assert client.responses.cancel(long.id).status == "cancelled"
        wait_until(lambda: not server.engine.running)
        assert client.responses.cancel(long.id).status == "cancelled"
        plain = client.responses.create(model="fake", input="hello", max_output_tokens=2)
        with pytest.raises(openai.BadRequestError, match="Only background"):
            client.responses.cancel(plain.id)


def test_a_failed_background_response_says_why() -> None:
    from tenfold.core.errors import EngineError

    with RunningServer(FakeEngine(fail_after=2, error=EngineError("The engine broke."))) as server:
        made = server.client.post("/v1/responses", json={"input": "x", "background": True}).json()
        path = f"/v1/responses/{made['id']}"
        wait_until(lambda: server.client.get(path).json()["status"] == "failed")
        assert server.client.get(path).json()["error"]["message"] == "The engine broke."


def test_kept_over_a_restart(tmp_path: Path) -> None:
    with RunningServer(FakeEngine(), data_dir=str(tmp_path)) as server:
        made = server.client.post("/v1/responses", json={"input": "hello"}).json()
        lost = server.client.post("/v1/responses", json={"input": "hello", "background": True}).json()
        wait_until(lambda: not server.engine.running)
    with sqlite3.connect(tmp_path / "responses.sqlite3") as db:  # as a kill would have left it
        db.execute("UPDATE responses SET status = 'in_progress', owner = '1:0' WHERE id = ?", (lost["id"],))
    db.close()
    with RunningServer(FakeEngine(), data_dir=str(tmp_path)) as server:
        kept = server.client.get(f"/v1/responses/{made['id']}").json()
        assert kept["output"][0]["content"][0]["text"] == TEXT
        failed = server.client.get(f"/v1/responses/{lost['id']}").json()
        assert failed["status"] == "failed" and "ended before" in failed["error"]["message"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": "x", "n": 2}, "n"),
        ({"input": "x", "max_tokens": 2}, "max_tokens"),
        ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": "x", "truncation": "auto"}, "truncation"),
        ({"input": "x", "background": True, "stream": True}, "background"),
        ({"input": "x", "background": True, "store": False}, "store"),
        ({"input": "x", "conversation": "c"}, "conversation"),
        ({"input": "x", "include": ["file_search_call.results"]}, "include[0]"),
        ({"input": "x", "text": {"format": {"type": "yaml"}}}, "text.format.type"),
        ({"input": "x", "text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
        ({"input": "x", "metadata": {str(i): "" for i in range(17)}}, "metadata"),
        ({"input": "x", "previous_response_id": "resp_no"}, "previous_response_id"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
        ({"input": "refuse me"}, "input"),
        ({"input": "x" * 600}, "input"),
        ({"input": "x", "top_logprobs": 99}, "top_logprobs"),
    ],
)
def test_bad_requests_name_the_field(shared, body: dict, param: str) -> None:
    reply = shared.client.post("/v1/responses", json=body)
    assert reply.status_code == 400, reply.text
    assert reply.json()["error"]["param"] == param


def test_a_stream_that_breaks_says_so() -> None:
    from tenfold.core.errors import EngineError

    with RunningServer(FakeEngine(fail_after=2, error=EngineError("The engine broke."))) as server:
        text = server.client.post("/v1/responses", json={"input": "x", "stream": True}).text
        last = json.loads(text.split("\n\n")[-3].rpartition("data: ")[2])
        assert last["error"]["message"] == "The engine broke."


TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def test_function_calls_and_what_came_of_them() -> None:
    with serve(CALL % "Oslo") as server, client_of(server) as client:
        reply = client.responses.create(model="fake", input="weather?", tools=[TOOL])
        (call,) = reply.output
        assert (call.type, call.name, call.status) == ("function_call", "get_weather", "completed")
        assert json.loads(call.arguments) == {"city": "Oslo"}
        events = list(client.responses.create(model="fake", input="weather?", tools=[TOOL], stream=True))
        pieces = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
        assert json.loads("".join(pieces)) == {"city": "Oslo"}
        assert events[-1].response.output[0].name == "get_weather"
        client.responses.create(
            model="fake",
            previous_response_id=reply.id,
            input=[{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}],
            tools=[TOOL],
        )
        asked = server.engine.chat_template.asked
        assert [message["role"] for message in asked["messages"]] == ["user", "assistant", "tool"]
        assert asked["messages"][1]["tool_calls"][0]["function"]["name"] == "get_weather"
        assert asked["tools"][0]["function"]["name"] == "get_weather"


def test_reasoning_is_an_item_of_its_own() -> None:
    with serve("<think>hm</think>yes") as server, client_of(server) as client:
        reply = client.responses.create(model="fake", input="really?")
        assert [item.type for item in reply.output] == ["reasoning", "message"]
        assert reply.output[0].content[0].text == "hm"
        assert reply.output_text == "yes"


@pytest.mark.parametrize(
    ("tools", "choice", "param"),
    [
        ([{"type": "web_search"}], None, "tools[0].type"),
        ([{"type": "function"}], None, "tools[0].function.name"),
        ([TOOL], {"type": "function", "name": "other"}, "tool_choice.function.name"),
    ],
)
def test_tools_that_cannot_be_used_are_named(tools: list[dict], choice: object, param: str) -> None:
    with serve("x") as server:
        body = {"input": "x", "tools": tools, "tool_choice": choice}
        assert server.client.post("/v1/responses", json=body).json()["error"]["param"] == param


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": TOOL["name"]}])
def test_a_forced_call(choice: object) -> None:
    call = json.dumps({"name": TOOL["name"], "arguments": {"city": "Rome"}})
    with serve(call) as server, client_of(server) as client:
        reply = client.responses.create(model="fake", input="x", tools=[TOOL], tool_choice=choice)
        form = server.engine.requests[0].sampling.structured
    assert [(item.type, json.loads(item.arguments)) for item in reply.output] == [
        ("function_call", {"city": "Rome"})
    ]
    assert form.kind == "json_schema"


def test_a_schema_is_told_to_the_engine() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    with RunningServer(FakeEngine()) as server:
        reply = server.client.post("/v1/responses", json={"input": "x", "text": {"format": form}}).json()
        assert reply["text"]["format"] == form
        structured = server.engine.requests[-1].sampling.structured
        assert (structured.kind, json.loads(structured.text)) == ("json_schema", schema)
