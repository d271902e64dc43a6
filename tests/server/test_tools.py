"""Tool calls and reasoning in chats, over a scripted engine and the openai package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tenfold.config.engine import EngineSettings
from tenfold.engine.async_engine import AsyncEngine
from tenfold.engine.model import load_model
from tests.server.fake_engine import FakeEngine, FakeTemplate
from tests.server.running_server import RunningServer
from tests.server.test_bad_input import error_of
from tests.server.test_chat import HELLO, events, post
from tests.tiny_models import write_tiny_gguf

QWEN = "{{ tools }}<tool_call></tool_call><think></think>"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "%s"}}\n</tool_call>'
TEXT = f"<think>\nTwo cities.\n</think>\n\nLet me look.\n{CALL % 'Paris'}\n{CALL % 'São Paulo'}\n"


def serve(text: str = TEXT, *, source: str = QWEN, opening: str = "", burst: int = 1, **settings: Any):
    return RunningServer(FakeEngine(text, burst=burst, template=FakeTemplate(source, opening)), **settings)


def put_together(chunks: list[dict[str, Any]], index: int = 0) -> dict[str, Any]:
    """The message that a stream's chunks make, by OpenAI's rules."""
    message: dict[str, Any] = {"content": None, "reasoning": None, "tool_calls": []}
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            delta = choice["delta"]
            for name in ("content", "reasoning"):
                if delta.get(name):
                    message[name] = (message[name] or "") + delta[name]
            assert delta.get("reasoning") == delta.get("reasoning_content")
            for call in delta.get("tool_calls", ()):
                if call["index"] == len(message["tool_calls"]):
                    assert call["type"] == "function"
                    message["tool_calls"].append({"id": call["id"], **call["function"]})
                else:
                    assert set(call) == {"index", "function"}
                    assert set(call["function"]) == {"arguments"}
                    message["tool_calls"][call["index"]]["arguments"] += call["function"]["arguments"]
            if choice["finish_reason"]:
                message["finish_reason"] = choice["finish_reason"]
    return message


@pytest.mark.parametrize("burst", [1, 7, 1000])
@pytest.mark.parametrize(
    "fields", [{}, {"n": 2}, {"logprobs": True, "top_logprobs": 1}, {"max_tokens": 30}, {"max_tokens": 110}]
)
def test_stream_says_the_same(burst, fields):
    with serve(burst=burst) as server:
        whole = post(server, tools=[WEATHER], **fields).json()
        chunks = events(post(server, tools=[WEATHER], stream=True, **fields).text)
    for choice in whole["choices"]:
        streamed = put_together(chunks, choice["index"])
        message = choice["message"]
        assert streamed["content"] == message["content"]
        assert streamed["reasoning"] == message.get("reasoning") == message.get("reasoning_content")
        calls = message.get("tool_calls", [])
        assert [(c["name"], c["arguments"]) for c in streamed["tool_calls"]] == [
            (call["function"]["name"], call["function"]["arguments"]) for call in calls
        ]
        assert streamed["finish_reason"] == choice["finish_reason"]
        own = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        entries = [entry for c in own if c["logprobs"] for entry in c["logprobs"]["content"]]
        assert entries == (choice["logprobs"]["content"] if choice["logprobs"] else [])


def test_whole_reply():
    with serve() as server:
        (choice,) = post(server, tools=[WEATHER]).json()["choices"]
    message = choice["message"]
    assert choice["finish_reason"] == "tool_calls"
    assert message["content"] == "Let me look."
    assert message["reasoning_content"] == message["reasoning"] == "Two cities."
    assert [call["type"] for call in message["tool_calls"]] == ["function"] * 2
    assert len({call["id"] for call in message["tool_calls"]}) == 2
    assert [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]] == [
        {"city": "Paris"},
        {"city": "São Paulo"},
    ]


def test_only_calls_have_no_content():
    with serve(CALL % "Paris") as server:
        (choice,) = post(server, tools=[WEATHER]).json()["choices"]
        (only,) = post(server, tools=[WEATHER], parallel_tool_calls=False).json()["choices"]
    assert choice["message"]["content"] is None
    assert "reasoning" not in choice["message"]
    assert len(only["message"]["tool_calls"]) == 1


def test_one_call_if_not_parallel():
    with serve() as server:
        (choice,) = post(server, tools=[WEATHER], parallel_tool_calls=False).json()["choices"]
    assert len(choice["message"]["tool_calls"]) == 1


def test_without_tools_calls_are_text():
    with serve(CALL % "Paris") as server:
        for fields in ({}, {"tools": [WEATHER], "tool_choice": "none"}, {"tools": []}):
            (choice,) = post(server, **fields).json()["choices"]
            assert choice["message"] == {"role": "assistant", "content": CALL % "Paris", "refusal": None}
            assert choice["finish_reason"] == "stop"
            assert server.engine.chat_template.asked["tools"] is None


def test_parsers_can_be_named_and_turned_off():
    with serve(tool_call_parser="none", reasoning_parser="none") as server:
        message = post(server, tools=[WEATHER]).json()["choices"][0]["message"]
        assert message == {"role": "assistant", "content": TEXT, "refusal": None}
        assert server.engine.chat_template.asked["tools"] == [WEATHER]
    mistral = '[TOOL_CALLS]get_weather{"city": "Paris"}'
    with serve(mistral, source="{{ tools }}", tool_call_parser="mistral") as server:
        message = post(server, tools=[WEATHER]).json()["choices"][0]["message"]
        assert message["tool_calls"][0]["function"] == {
            "name": "get_weather",
            "arguments": '{"city": "Paris"}',
        }


def test_reasoning_that_the_prompt_opens_or_closes():
    with serve("Hm.\n</think>\n\nYes.", opening="<think>\n") as server:
        message = post(server).json()["choices"][0]["message"]
        assert (message["reasoning"], message["content"]) == ("Hm.", "Yes.")
        message = post(server, max_tokens=2).json()["choices"][0]["message"]
        assert (message["reasoning"], message["content"]) == ("Hm", None)
    with serve("A </think> is no end.", opening="<think>\n\n</think>\n\n") as server:
        message = post(server).json()["choices"][0]["message"]
        assert message == {"role": "assistant", "content": "A </think> is no end.", "refusal": None}


def test_a_template_without_tools_refuses_them():
    with serve(source="{{ messages }}") as server:
        refused = post(server, tools=[WEATHER])
        assert (refused.status_code, error_of(refused)["param"]) == (400, "tools")
        assert post(server, tools=[WEATHER], tool_choice="none").status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{}]}, "tools[0].type"),
        ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "description": 1}}]},
            "tools[0].function.description",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": "x"}}]},
            "tools[0].function.parameters",
        ),
        ({"tools": [WEATHER], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function"}}, "tool_choice"),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "g"}}},
            "tool_choice.function.name",
        ),
        (
            {"messages": [*HELLO, {"role": "assistant", "tool_calls": [{"id": "1"}]}]},
            "messages[1].tool_calls[0].function",
        ),
        (
            {"messages": [*HELLO, {"role": "assistant", "tool_calls": [{"function": {}}]}]},
            "messages[1].tool_calls[0].function.name",
        ),
    ],
)
def test_refused(shared, fields, param):
    refused = post(shared, **fields)
    assert (refused.status_code, error_of(refused)["param"]) == (400, param)


def test_the_openai_client():
    with (
        serve() as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client,
    ):
        asked: dict[str, Any] = {"model": "fake", "messages": HELLO, "tools": [WEATHER]}
        whole = client.chat.completions.create(**asked).choices[0]
        with client.chat.completions.stream(**asked) as stream:
            seen = [event.type for event in stream]
            final = stream.get_final_completion().choices[0]
        calls = whole.message.tool_calls
        assert [call.function.arguments for call in final.message.tool_calls] == [
            call.function.arguments for call in calls
        ]
        assert seen.count("tool_calls.function.arguments.done") == 2
        assert final.finish_reason == whole.finish_reason == "tool_calls"
        assert final.message.content == whole.message.content == "Let me look."
        again = client.chat.completions.create(
            model="fake",
            messages=[
                *HELLO,
                whole.message.model_dump(exclude_none=True),
                *({"role": "tool", "content": "sun", "tool_call_id": call.id} for call in calls),
            ],
        )
        assert again.choices[0].finish_reason == "stop"
        sent = server.engine.chat_template.asked["messages"]
        assert sent[1]["tool_calls"][1]["function"]["arguments"] == {"city": "São Paulo"}
        assert sent[1]["reasoning_content"] == "Two cities."
        assert sent[3] == {"role": "tool", "content": "sun", "tool_call_id": calls[1].id}


BOUNDED = {
    "type": "function",
    "function": {
        "name": "set_level",
        "parameters": {
            "type": "object",
            "properties": {"room": {"enum": ["kitchen", "hall"]}, "level": {"$ref": "#/$defs/level"}},
            "required": ["room", "level"],
            "additionalProperties": False,
            "$defs": {"level": {"type": "integer", "minimum": 0, "maximum": 9}},
        },
    },
}
NAMED = {"type": "function", "function": {"name": "set_level"}}
LEVEL_CALL = '{"name": "set_level", "arguments": {"room": "hall", "level": 3}}'


@pytest.mark.parametrize(
    ("choice", "text", "count"),
    [(NAMED, LEVEL_CALL, 1), ("required", f"[{LEVEL_CALL}, {LEVEL_CALL}]", 2)],
)
def test_forced_calls(choice, text, count):
    with serve(text, source=QWEN, opening="<think>\n") as server:
        asked = {"tools": [WEATHER, BOUNDED], "tool_choice": choice}
        (whole,) = post(server, **asked).json()["choices"]
        streamed = put_together(events(post(server, stream=True, **asked).text))
        form = json.loads(server.engine.requests[0].sampling.structured.text)
        assert server.engine.compiled[0][0] == server.engine.requests[0].sampling.structured
    assert whole["message"]["content"] is None
    calls = [
        (call["function"]["name"], call["function"]["arguments"]) for call in whole["message"]["tool_calls"]
    ]
    assert calls == [("set_level", '{"room": "hall", "level": 3}')] * count
    assert [(call["name"], call["arguments"]) for call in streamed["tool_calls"]] == calls
    assert streamed["finish_reason"] == whole["finish_reason"] == "tool_calls"
    assert list(form["$defs"]) == ["level"]
    assert form["type"] == ("object" if count == 1 else "array")


def test_a_form_of_the_answer_leaves_no_calls_by_choice_but_forced_ones():
    form = {"type": "json_object"}
    with serve(LEVEL_CALL) as server:
        message = post(server, tools=[BOUNDED], response_format=form).json()["choices"][0]["message"]
        assert message == {"role": "assistant", "content": LEVEL_CALL, "refusal": None}
        message = post(server, tools=[BOUNDED], tool_choice=NAMED, response_format=form).json()["choices"][0][
            "message"
        ]
        assert len(message["tool_calls"]) == 1


def test_definitions_of_two_tools_that_differ():
    other = json.loads(json.dumps(BOUNDED).replace("set_level", "other").replace("9", "8"))
    with serve() as server:
        refused = post(server, tools=[BOUNDED, other], tool_choice="required")
        assert (refused.status_code, error_of(refused)["param"]) == (400, "tools")
        assert post(server, tools=[BOUNDED, other], tool_choice=NAMED).status_code == 200


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("tools")
    template = folder / "template.jinja"
    template.write_text("{{ tools | tojson }}{% for message in messages %}{{ message.content }}{% endfor %}")
    path = write_tiny_gguf(folder / "tiny.gguf", "llama", context=2048)
    settings = EngineSettings(
        threads=1, max_num_seqs=4, kv_cache_memory_bytes=1 << 24, chat_template=str(template)
    )
    with RunningServer(AsyncEngine(load_model(path, settings), "tiny")) as server:
        yield server


@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_knows_nothing_calls_as_it_must(tiny, seed):
    for choice in (NAMED, "required"):
        body = {"tools": [BOUNDED], "tool_choice": choice, "parallel_tool_calls": False, "max_tokens": 600}
        (done,) = post(tiny, **{**body, "model": "tiny"}, seed=seed).json()["choices"]
        assert done["finish_reason"] == "tool_calls"
        (call,) = done["message"]["tool_calls"]
        arguments = json.loads(call["function"]["arguments"])
        assert arguments["room"] in ("kitchen", "hall")
        assert arguments["level"] in range(10)
