"""Reasoning apart from the answer."""

from __future__ import annotations

import pytest

from tenfold.text.parsers.reasoning import FORMATS
from tenfold.text.parsers.registry import reasoning_format
from tests.text.parsers.driving import read


def split(text: str, **options):
    found = read(text, reasoning="qwen3", **options)
    assert not found["calls"]
    return found["reasoning"], found["content"]


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.names[0])
def test_every_pair_of_tags(form, special):
    text = f"{form.opening}\nHm, 2 + 2.\n\n{form.closing}\n\nIt is 4.\n"
    assert read(text, reasoning=form.names[0], special=special) == {
        "reasoning": "Hm, 2 + 2.",
        "content": "It is 4.\n",
        "calls": [],
    }


def test_opened_by_the_prompt():
    assert split("Hm.\n</think>\n\nYes.", is_open=True) == ("Hm.", "Yes.")
    assert split("\n<think>\nHm.</think>Yes.", is_open=True) == ("Hm.", "Yes.")


def test_cut_off_inside():
    assert split("<think>\nHm, let me", is_open=None) == ("Hm, let me", "")
    assert split("Hm, let me </thi", is_open=True) == ("Hm, let me </thi", "")
    assert split("Hm \n", is_open=True) == ("Hm \n", "")


def test_none():
    assert split(" An answer.", is_open=None) == ("", " An answer.")
    assert split("<think>\n\n</think>\n\nYes.", is_open=None) == ("", "Yes.")
    assert split("<think> quoted </think>", is_open=False) == ("", "<think> quoted </think>")
    assert split("<thinking> is no tag", is_open=None) == ("", "<thinking> is no tag")
    assert split("", is_open=None) == ("", "")


def test_tags_in_the_answer_are_words():
    text = "<think>Hm.</think>Write <think> and </think> around it.</think>"
    assert split(text) == ("Hm.", "Write <think> and </think> around it.</think>")
    assert split("The tag </think> ends it.") == ("", "The tag </think> ends it.")


def test_before_tool_calls():
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    text = f'<think>\nI need "now": <tool_call>?\n</think>\n\n{call}'
    assert read(text, reasoning="qwen3", tools="hermes") == {
        "reasoning": 'I need "now": <tool_call>?',
        "content": "",
        "calls": [("now", "{}")],
    }


def test_the_end_of_the_prompt_tells():
    qwen, deepseek = reasoning_format("qwen3", None), reasoning_format("deepseek_r1", None)
    assert qwen is not None
    assert deepseek is not None
    assert qwen.is_open("<|im_start|>assistant\n<think>\n") is True
    assert qwen.is_open("<|im_start|>assistant\n<think>\n\n</think>\n\n") is False
    assert qwen.is_open("<think> said the user<|im_end|>\n<|im_start|>assistant\n") is None
    assert deepseek.is_open("<｜Assistant｜>") is True
    assert deepseek.is_open("<｜Assistant｜></think>") is False
