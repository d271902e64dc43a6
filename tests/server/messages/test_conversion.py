from __future__ import annotations

import msgspec
import pytest

from tenfold.core.errors import InvalidRequestError
from tenfold.server.messages.conversion import chat_messages, continues
from tenfold.server.messages.protocol import CountRequest


def request(*turns, **fields):
    messages = [{"role": role, "content": content} for role, content in turns]
    return msgspec.convert({"model": "m", "messages": messages, **fields}, CountRequest)


def text(*texts):
    return [{"type": "text", "text": one, "cache_control": {"type": "ephemeral"}} for one in texts]


def shape(request):
    """(role, texts) of each message."""
    return [
        (
            message.role,
            message.content if isinstance(message.content, str) else [p.text for p in message.content or []],
        )
        for message in chat_messages(request)
    ]


def test_texts_and_blocks():
    assert shape(request(("user", "a"), ("assistant", text("b", "c")), ("user", text("d")), system="s")) == [
        ("system", "s"),
        ("user", ["a"]),
        ("assistant", ["b", "c"]),
        ("user", ["d"]),
    ]
    assert shape(request(("user", "a"), system=text("s", "t")))[0] == ("system", ["s", "t"])
    assert shape(request(("user", "a"), system="")) == [("user", ["a"])]


def test_turns_of_one_role_are_one():
    assert shape(request(("user", "a"), ("user", text("b")), ("assistant", "c"), ("assistant", "d"))) == [
        ("user", ["a", "b"]),
        ("assistant", ["c", "d"]),
    ]


def test_tools_used_and_their_results():
    use = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "é"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": text("seen", "twice")}
    bare = {"type": "tool_result", "tool_use_id": "t2"}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    messages = chat_messages(
        request(
            ("user", "go"),
            ("assistant", [thought, *text("I look."), use, {**use, "id": "t2"}]),
            ("user", [result, bare, *text("now?")]),
        )
    )
    _, assistant, first, second, user = messages
    assert assistant.reasoning_content == "Hm."
    assert [call["function"] for call in assistant.tool_calls] == [
        {"name": "look", "arguments": '{"at":"é"}'}
    ] * 2
    assert (first.role, first.tool_call_id, first.name) == ("tool", "t1", "look")
    assert [part.text for part in first.content] == ["seen", "twice"]
    assert (second.tool_call_id, second.content) == ("t2", "")
    assert (user.role, user.content[0].text) == ("user", "now?")


@pytest.mark.parametrize(
    ("role", "content", "param"),
    [
        ("system", "a", "messages[0].role"),
        ("user", [], "messages[0].content"),
        ("user", [{"type": "image", "source": {}}], "messages[0].content[0]"),
        ("user", [{"type": "text"}], "messages[0].content[0].text"),
        ("user", [{"type": "tool_result"}], "messages[0].content[0].tool_use_id"),
        ("user", [{"type": "tool_use", "id": "a", "name": "b"}], "messages[0].content[0]"),
        (
            "user",
            [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]}],
            "messages[0].content[0].content[0]",
        ),
        ("assistant", [{"type": "tool_use", "id": "a"}], "messages[0].content[0]"),
        ("assistant", [{"type": "document"}], "messages[0].content[0]"),
    ],
)
def test_what_is_refused(role, content, param):
    with pytest.raises(InvalidRequestError) as refused:
        chat_messages(request((role, content)))
    assert refused.value.param == param


def test_a_last_message_of_the_assistant_is_gone_on_with():
    assert not continues(request(("user", "a")))
    assert continues(request(("user", "a"), ("assistant", "b")))
    with pytest.raises(InvalidRequestError, match="result"):
        continues(request(("assistant", [{"type": "tool_use", "id": "a", "name": "b"}])))
