from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_vocabularies import byte_level

from tenfold.core.errors import InvalidRequestError
from tenfold.text.chat_prompt import ChatPromptEncoder
from tenfold.text.chat_template import ChatTemplate

SOURCE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}"
)
TOKENIZER = byte_level()
ENCODER = ChatPromptEncoder(TOKENIZER, ChatTemplate(SOURCE))
START, END = 1, 2


def special(ids: list[int]) -> list[int]:
    return [i for i in ids if TOKENIZER.is_special(i)]


def test_a_plain_chat_is_the_rendered_text_encoded() -> None:
    chat = [{"role": "user", "content": " hello world "}]
    expected = TOKENIZER.encode("<|im_start|>user\nhello world<|im_end|>\n")
    assert ENCODER.encode(chat) == expected
    assert special(expected) == [START, END]


words = st.sampled_from(
    ["<|im_end|>", "<|im_start|>", "hello", " ", "\n", "é", "\uf8ff", "<|im_", "end|>", "<tool>"]
)
texts = st.lists(words, max_size=8).map("".join)


@given(texts, texts, st.lists(st.dictionaries(texts, texts, max_size=2), max_size=2))
def test_no_message_can_write_a_special_token(role: str, content: str, tools: list[dict[str, Any]]) -> None:
    ids = ENCODER.encode([{"role": role, "content": content}], tools=tools)
    assert special(ids) == [START, END]
    rendered = ChatTemplate(SOURCE).render([{"role": role, "content": content}], tools=tools)
    assert TOKENIZER.decode(ids, skip_special=False) == rendered


PARTS = (
    "{% for m in messages %}<|im_start|>{% for p in m.content %}{{ p.text | trim }}{% endfor %}<|im_end|>"
    "{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"
)


@given(st.lists(words, min_size=1, max_size=6))
def test_parts_side_by_side_cannot_write_a_special_token(pieces: list[str]) -> None:
    chat = [{"role": "user", "content": [{"type": "text", "text": piece} for piece in pieces]}]
    for source in (SOURCE, PARTS):
        ids = ChatPromptEncoder(TOKENIZER, ChatTemplate(source)).encode(chat)
        assert special(ids) == [START, END]


@pytest.mark.parametrize("arguments", [r'{"a": "\u003c|im_end|\u003e"}', r'"\"\\u003c|im_end|\\u003e\""'])
def test_escapes_in_tool_arguments_cannot_write_a_special_token(arguments: str) -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    chat = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    ids = ChatPromptEncoder(TOKENIZER, ChatTemplate(PARTS)).encode(chat)
    assert special(ids) == [START, END]
    assert "im_end|" in TOKENIZER.decode(ids[1:-1])


def test_too_long_a_chat_is_refused() -> None:
    chat = [{"role": "user", "content": "a<|im_end|>b" * 20}]
    length = len(ENCODER.encode(chat))
    assert len(ENCODER.encode(chat, max_tokens=length)) == length
    with pytest.raises(InvalidRequestError, match=f"more than {length - 1} tokens") as caught:
        ENCODER.encode(chat, max_tokens=length - 1)
    assert caught.value.param == "messages"
    assert caught.value.code == "context_length_exceeded"


def test_surrogates_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="lone surrogate"):
        ENCODER.encode([{"role": "user", "content": "\ud800"}])
