"""Tools and thoughts in messages, over a scripted engine and the anthropic package."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from tests.server.fake_engine import FakeEngine, FakeTemplate
from tests.server.messages.test_routes import ASKING, HELLO, connect
from tests.server.running_server import RunningServer

QWEN = "{{ tools }}<tool_call></tool_call><think></think>"
WEATHER = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "%s"}}\n</tool_call>'
TEXT = f"<think>\nTwo cities.\n</think>\n\nLet me look.\n{CALL % 'Paris'}\n{CALL % 'São Paulo'}\n"
TOOLS = {**ASKING, "max_tokens": 400, "tools": [WEATHER]}


def serve(text: str = TEXT, *, source: str = QWEN, burst: int = 1, **settings: Any) -> RunningServer:
    return RunningServer(FakeEngine(text, burst=burst, template=FakeTemplate(source)), **settings)


def plain(reply: Any) -> list[dict[str, Any]]:
    """The blocks without ids, which are random."""
    fields = ("type", "thinking", "text", "name", "input")
    return [
        {name: getattr(block, name) for name in fields if hasattr(block, name)} for block in reply.content
    ]


@pytest.mark.parametrize("burst", [1, 7, 1000])
@pytest.mark.parametrize("max_tokens", [10, 60, 100, 400])
def test_whole_and_streamed_say_the_same(burst, max_tokens):
    with serve(burst=burst) as server, connect(server) as client:
        asking = {**TOOLS, "max_tokens": max_tokens}
        whole = client.messages.create(**asking)
        with client.messages.stream(**asking) as stream:
            streamed = stream.get_final_message()
    assert streamed.stop_reason == whole.stop_reason
    if max_tokens == 400:
        assert whole.stop_reason == "tool_use"
        assert plain(whole) == plain(streamed)
        assert plain(whole) == [
            {"type": "thinking", "thinking": "Two cities."},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "name": "get_weather", "input": {"city": "Paris"}},
            {"type": "tool_use", "name": "get_weather", "input": {"city": "São Paulo"}},
        ]
        assert len({block.id for block in whole.content[2:]}) == 2
    else:
        assert whole.stop_reason == "max_tokens"
        assert [block.type for block in whole.content] == [block.type for block in streamed.content]


def test_arguments_that_end_inside_are_wrapped():
    cut = TEXT.index('"Paris') + 3
    with serve() as server, connect(server) as client:
        reply = client.messages.create(**{**TOOLS, "max_tokens": len(TEXT[:cut].encode())})
    assert reply.content[-1].type == "tool_use"
    assert reply.content[-1].input["INVALID_JSON"].startswith('{"city"')


def test_one_call_where_only_one_is_wanted():
    with serve() as server, connect(server) as client:
        reply = client.messages.create(
            **TOOLS, tool_choice={"type": "auto", "disable_parallel_tool_use": True}
        )
        assert [block.type for block in reply.content] == ["thinking", "text", "tool_use"]


def test_the_template_hears_of_tools_and_results():
    with serve("Sunny.") as server, connect(server) as client:
        use = {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Rome"}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "sun"}
        turns = [*HELLO, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        reply = client.messages.create(**{**TOOLS, "messages": turns})
        assert (reply.content[0].text, reply.stop_reason) == ("Sunny.", "end_turn")
        asked = server.engine.chat_template.asked
        assert asked["tools"][0]["function"]["parameters"] == WEATHER["input_schema"]
        assert [message["role"] for message in asked["messages"]] == ["user", "assistant", "tool"]
        with_tools = client.messages.count_tokens(model="fake", messages=turns, tools=[WEATHER]).input_tokens
        assert with_tools == reply.usage.input_tokens + reply.usage.cache_read_input_tokens


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}])
def test_a_forced_use(choice):
    call = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
    with serve(call) as server, connect(server) as client:
        reply = client.messages.create(**TOOLS, tool_choice=choice)
        form = server.engine.requests[0].sampling.structured
    assert [(block.type, block.input) for block in reply.content] == [("tool_use", {"city": "Paris"})]
    assert reply.stop_reason == "tool_use"
    assert form.kind == "json_schema"


def test_no_tools_by_choice():
    with serve(CALL % "Paris") as server, connect(server) as client:
        reply = client.messages.create(**TOOLS, tool_choice={"type": "none"})
        assert [block.type for block in reply.content] == ["text"]
        assert server.engine.chat_template.asked["tools"] is None


@pytest.mark.parametrize(("kind", "flag"), [("enabled", True), ("adaptive", True), ("disabled", False)])
def test_thinking_is_told_to_the_template(kind, flag):
    with serve() as server, connect(server) as client:
        client.messages.create(**TOOLS, extra_body={"thinking": {"type": kind, "budget_tokens": 1024}})
        assert server.engine.chat_template.asked["enable_thinking"] is flag


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "only Anthropic runs"),
        ({"tools": [WEATHER, WEATHER]}, "earlier"),
        ({"tool_choice": {"type": "some"}}, "must be auto"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "does not think"),
    ],
)
def test_what_is_refused(fields, words):
    with serve(source="{{ tools }}") as server, connect(server) as client:
        with pytest.raises(anthropic.BadRequestError) as refused:
            client.messages.create(**{**TOOLS, **fields})
        assert words in refused.value.body["error"]["message"]
