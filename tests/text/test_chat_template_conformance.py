"""The real models' templates, against transformers' rendering of the same source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tenfold.checkpoints.gguf import GgufCheckpoint
from tenfold.text.chat_template import ChatTemplate

pytestmark = pytest.mark.conformance

NAMES = [
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "qwen2.5-coder-0.5b-instruct.gguf",
    "qwen2.5-coder-1.5b-instruct.gguf",
]
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Žilina <1>"}}}
TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}
CHATS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hé\n\n  <b>&'\""}],
    [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "sunny"},
        {"role": "tool", "content": "warm"},
        {"role": "assistant", "content": "Sunny."},
        {"role": "user", "content": "Thanks"},
    ],
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("tools", [None, [TOOL]])
@pytest.mark.parametrize("prompt", [True, False])
def test_same_text_as_transformers(
    name: str, chat: list[dict[str, Any]], tools: list[dict[str, Any]] | None, prompt: bool
) -> None:
    rendering = pytest.importorskip("transformers.utils.chat_template_utils")
    folder = os.environ.get("TENFOLD_TEST_MODELS")
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"{name} is not in TENFOLD_TEST_MODELS")
    source = GgufCheckpoint(Path(folder) / name).tokenizer
    assert source.chat_template is not None
    (expected,), _ = rendering.render_jinja_template(
        [chat],
        tools=tools,
        chat_template=source.chat_template,
        add_generation_prompt=prompt,
        **source.special,
    )
    template = ChatTemplate(source.chat_template, source.special)
    assert template.render(chat, tools=tools, add_generation_prompt=prompt) == expected
