"""Formats by name and by chat template."""

from __future__ import annotations

import pytest

from tenfold.core.errors import TenfoldError
from tenfold.text.parsers.registry import REASONING_FORMATS, TOOL_FORMATS, reasoning_format, tool_format


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{% if tools %}<tools>...</tools> return <tool_call>\n{'name': ...}</tool_call>", "hermes"),
        ("{% if tools %}<tool_call>{name}\n<arg_key>k</arg_key>", "glm45"),
        ("<|start_header_id|> {{ tools }} 'name': ..., \"parameters\": ...", "llama3_json"),
        ("[AVAILABLE_TOOLS] {{ tools }} [TOOL_CALLS]", "mistral"),
        ("{{ tools }}<|tool_calls_section_begin|>", "kimi_k2"),
        ("{{ tools }}<｜tool▁calls▁begin｜>", "deepseek_v3"),
        ("{{ tools }}", "json"),
        ("{{ messages }}", None),
        (None, None),
    ],
)
def test_tool_formats_of_templates(template, name):
    form = tool_format(None, template)
    assert (None if form is None else form.names[0]) == name


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ x.split('</think>') }}", "qwen3"),
        ("[THINK][/THINK]", "mistral"),
        ("{{ messages }}", None),
        (None, None),
    ],
)
def test_reasoning_formats_of_templates(template, name):
    form = reasoning_format(None, template)
    assert (None if form is None else form.names[0]) == name


@pytest.mark.parametrize("find", [tool_format, reasoning_format])
def test_names(find):
    forms = TOOL_FORMATS if find is tool_format else REASONING_FORMATS
    names = [name for form in forms for name in form.names]
    assert len(set(names)) == len(names)
    for form in forms:
        assert all(find(name, None) is form for name in form.names)
    assert find("none", "<tool_call> </think> tools") is None
    with pytest.raises(TenfoldError, match="unknown; give one of"):
        find("telepathy", None)
