from __future__ import annotations

from typing import Any

import pytest

from tenfold.core.errors import InvalidRequestError
from tenfold.server.responses.request import items_of, messages_of


def plain(items: list[dict[str, Any]]) -> list[tuple]:
    found = []
    for message in messages_of(items, "input"):
        content = message.content
        text = content if isinstance(content, str) else "+".join(part.text or "" for part in content or ())
        calls = [call["function"]["name"] for call in message.tool_calls or ()]
        found.append((message.role, text, calls, message.tool_call_id, message.reasoning_content))
    return found


def test_a_text_is_a_users_message() -> None:
    assert plain(items_of("hello")) == [("user", "hello", [], None, None)]


def test_a_turn_with_thoughts_and_calls_is_one_message() -> None:
    items = [
        {"role": "developer", "content": "be brief"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look"}]},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "one"},
        {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "two"}]},
    ]
    assert plain(items) == [
        ("developer", "be brief", [], None, None),
        ("user", "a", [], None, None),
        ("assistant", "I look", ["f", "g"], None, "hm"),
        ("tool", "one", [], "1", None),
        ("tool", "two", [], "2", None),
    ]


def test_calls_without_words_have_a_message_of_their_own() -> None:
    items = [
        {"role": "user", "content": "a"},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
    ]
    assert plain(items)[1] == ("assistant", "", ["f"], None, None)


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ("text", "input[0]"),
        ({}, "input[0].type"),
        ({"type": "item_reference", "id": "x"}, "input[0].type"),
        ({"role": "robot", "content": "a"}, "input[0].role"),
        ({"role": "user"}, "input[0].content"),
        ({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}, "input[0].content[0]"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input[0].content[0].text"),
        ({"type": "function_call", "call_id": "1", "name": "f"}, "input[0].arguments"),
        ({"type": "function_call_output", "output": "x"}, "input[0].call_id"),
        ({"type": "function_call_output", "call_id": "1"}, "input[0].output"),
    ],
)
def test_items_that_cannot_be_used_are_named(item: Any, param: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        messages_of([item], "input")
    assert refused.value.param == param
