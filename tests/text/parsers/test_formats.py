"""Each tool format, by the examples of its models' documentation, and what models make of it."""

from __future__ import annotations

import json

import pytest

from tests.text.parsers.driving import calls_of, drive, parser, read, together

PARIS = ("get_weather", {"city": "Paris"})
ROME = ("get_weather", {"city": "Rome", "days": 3})
PARIS_JSON = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
ROME_JSON = '{"name": "get_weather", "arguments": {"city": "Rome", "days": 3}}'
KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
    '{"city": "Paris"}<|tool_call_end|><|tool_call_begin|>functions.get_weather:1<|tool_call_argument_begin|>'
    '{"city": "Rome", "days": 3}<|tool_call_end|><|tool_calls_section_end|>'
)
DEEPSEEK_V3 = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
    '{"city": "Paris"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n'
    '{"city": "Rome", "days": 3}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
)
DEEPSEEK_V31 = (
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜>'
    '<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Rome", "days": 3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
)
GLM = (
    "\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>"
    "\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"
)
TWO_CALLS = {
    "hermes": [
        f"<tool_call>\n{PARIS_JSON}\n</tool_call>\n<tool_call>\n{ROME_JSON}\n</tool_call>",
        f"<tool_call>{PARIS_JSON}</tool_call><tool_call>{ROME_JSON}",
        f"<tool_call>\n{PARIS_JSON}}}\n</tool_call>\n<tool_call>\n{ROME_JSON}\n</tool_call>",
        f"<tools>\n{PARIS_JSON}\n{ROME_JSON}\n</tools>",
        f"{PARIS_JSON}\n{ROME_JSON}",
    ],
    "llama3_json": [
        f"<|python_tag|>{PARIS_JSON}; {ROME_JSON}",
        f"{PARIS_JSON}; {ROME_JSON}".replace("arguments", "parameters"),
        f'{{"type": "function", {PARIS_JSON[1:]}\n{ROME_JSON}',
    ],
    "mistral": [
        f"[TOOL_CALLS] [{PARIS_JSON}, {ROME_JSON}]",
        '[TOOL_CALLS]get_weather{"city": "Paris"}[TOOL_CALLS]get_weather{"city": "Rome", "days": 3}',
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]get_weather[ARGS]{"city": "Rome", "days": 3}',
        '[TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{"city": "Paris"}'
        '[TOOL_CALLS]get_weather[CALL_ID]abcdefghj[ARGS]{"city": "Rome", "days": 3}',
    ],
    "glm45": [GLM],
    "kimi_k2": [KIMI],
    "deepseek_v3": [DEEPSEEK_V3, DEEPSEEK_V31],
    "json": [f"[{PARIS_JSON}, {ROME_JSON}]", f"```json\n[{PARIS_JSON},\n{ROME_JSON}]\n```"],
}
CASES = [(name, text) for name, texts in TWO_CALLS.items() for text in texts]


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(("name", "text"), CASES)
def test_two_calls(name, text, special):
    assert calls_of(text, tools=name, special=special) == [PARIS, ROME]


@pytest.mark.parametrize(("name", "text"), CASES)
def test_only_the_first_call_if_asked(name, text):
    assert calls_of(text, tools=name, parallel=False) == [PARIS]


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_call_cut_off_at_any_character(name, text):
    """Arguments stay the beginning of what they would have been, and nothing fails."""
    whole = read(text, tools=name)["calls"]
    for end in range(len(text)):
        found = read(text[:end], tools=name)["calls"]
        for (cut_name, cut), (own_name, own) in zip(found, whole, strict=False):
            assert cut_name == own_name
            assert own.startswith(cut)


@pytest.mark.parametrize("name", ["hermes", "mistral", "glm45", "kimi_k2", "deepseek_v3"])
def test_content_before_calls(name):
    found = read(f"Let me look.\n{TWO_CALLS[name][0]}\n", tools=name)
    assert found["content"] == "Let me look."
    assert len(found["calls"]) == 2


@pytest.mark.parametrize("name", TWO_CALLS)
@pytest.mark.parametrize(
    "text",
    [
        "Hello, world!\n\n",
        "  indented",
        'An object: {"name": "get_weather", "arguments": {}} is no call here.',
        '{"name": "Ada", "arguments": {"born": 1815}}',
        '{"name": "get_weather", "mood": "fine", "arguments": {}}',
        '[1, 2, {"a": "b"}]',
        "```json\n[1, 2]\n```",
        "{",
        "a < b <tool <| [TOOL <｜",
        "",
    ],
)
def test_what_is_content(name, text):
    assert read(text, tools=name) == {"reasoning": "", "content": text, "calls": []}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", "<tool_call>\nget_weather(city='Paris')\n</tool_call>"),
        ("hermes", '<tool_call>\n{"name": "get_weather", \'arguments\': {}}\n</tool_call>'),
        ("hermes", '<tool_call>{"arguments": {}}</tool_call>'),
        ("hermes", '<tool_call>{"name": 3, "arguments": {}}</tool_call>'),
        ("hermes", '<tool_call>{"name": "now", "arguments": [1]}</tool_call>'),
        ("hermes", '<tool_call>{"name": "now", "arguments": "no object"}</tool_call>'),
        ("hermes", '<tool_call>{"name": "\\ud800", "arguments": {}}</tool_call>'),
        ("llama3_json", "<|python_tag|>print(1 + 1)"),
        ("mistral", "[TOOL_CALLS]"),
        ("mistral", "[TOOL_CALLS]what is this? {}"),
        ("glm45", "<tool_call>get_weather(city)</tool_call>"),
        ("glm45", "<tool_call>get_weather\n<arg_key>city<arg_key>"),
        ("kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>now {}<|tool_call_end|>"),
        ("deepseek_v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now {}<｜tool▁call▁end｜>"),
    ],
)
def test_a_broken_call_is_content(name, text):
    assert read(text, tools=name) == {"reasoning": "", "content": text, "calls": []}


def test_a_call_after_a_broken_one():
    found = read(f"<tool_call>oh<tool_call>{PARIS_JSON}</tool_call>", tools="hermes")
    assert found["content"] == "<tool_call>oh"
    assert len(found["calls"]) == 1


def test_arguments_that_break_keep_what_was_told_and_the_rest_is_content():
    text = '<tool_call>{"name": "now", "arguments": {"text": "say "hi"", "n": 1}}</tool_call>'
    found = read(text, tools="hermes")
    assert found["calls"] == [("now", '{"text": "say "')]
    assert found["content"] == 'hi"", "n": 1}}</tool_call>'
    broken = parser("hermes")
    drive(broken, [text])
    assert not broken.has_calls


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ('{"name": "now"}', "{}"),
        ('{"name": "now", "arguments": null}', "{}"),
        ('{"arguments": {"a": [1, {"b": 2}]}, "name": "now"}', '{"a": [1, {"b": 2}]}'),
        ('{"name": "now", "arguments": "{\\"a\\": 1}"}', '{"a": 1}'),
        ('{"name": "now", "arguments": {"a": "</tool_call>"}}', '{"a": "</tool_call>"}'),
        ('{"name": "now", "arguments": {"a": "one\ntwo\t"}}', '{"a": "one\\ntwo\\t"}'),
        ('{"id": 7, "name": "now", "arguments": {"é": "\\u00e9😀"}, "x": [1]}', '{"é": "\\u00e9😀"}'),
    ],
)
def test_shapes_of_a_json_call(body, arguments):
    found = read(f"<tool_call>{body}</tool_call>", tools="hermes")
    assert found == {"reasoning": "", "content": "", "calls": [("now", arguments)]}
    json.loads(arguments)


def test_arguments_come_as_they_are_written():
    one = parser("hermes")
    one.push('<tool_call>{"name": "get_weather", ')
    assert together(one.push('"arguments": {"city": "Pa')) == {
        "reasoning": "",
        "content": "",
        "calls": [("get_weather", '{"city": "Pa')],
    }


def test_glm_values_by_schema():
    def call(key, value):
        text = f"<tool_call>get_weather<arg_key>{key}</arg_key><arg_value>{value}</arg_value></tool_call>"
        return calls_of(text, tools="glm45")[0][1]

    assert call("city", "12") == {"city": "12"}
    assert call("city", 'a "b"\n\\c') == {"city": 'a "b"\n\\c'}
    assert call("days", " 3 ") == {"days": 3}
    assert call("other", '{"a": [true]}') == {"other": {"a": [True]}}
    assert call("other", "plain text") == {"other": "plain text"}
    assert calls_of("<tool_call>now</tool_call>", tools="glm45") == [("now", {})]


def test_ids_that_templates_want_back():
    (begun, *_) = drive(parser("kimi_k2"), [KIMI])
    assert begun.id == "functions.get_weather:0"
    (begun, *_) = drive(parser("mistral"), [TWO_CALLS["mistral"][0]])
    assert len(begun.id) == 9
    assert begun.id.isalnum()
    (begun, *_) = drive(parser("mistral"), [TWO_CALLS["mistral"][3]])
    assert begun.id == "abcdefghi"
