"""Bodies of Anthropic's Messages API; unknown fields are ignored."""

from __future__ import annotations

from typing import Any

import msgspec


class Block(msgspec.Struct, kw_only=True):
    """One block of a message's content; which fields count depends on its type.

    Args:
        type: text, tool_use, tool_result, thinking, or what is not supported.
        text: of a text.
        id: of a tool's use.
        name: of the used tool.
        input: the tool's arguments.
        tool_use_id: whose result this is.
        content: the result.
        thinking: earlier reasoning.
    """

    type: str
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    content: str | list[Block] | None = None
    thinking: str | None = None


class Turn(msgspec.Struct, kw_only=True):
    """One message."""

    role: str
    content: str | list[Block]


class ToolChoice(msgspec.Struct, kw_only=True):
    """Whether tools may be used."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Tool(msgspec.Struct, kw_only=True):
    """A tool the model may use; those that Anthropic runs itself have other types than custom."""

    name: str
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class Thinking(msgspec.Struct, kw_only=True):
    """Whether to reason."""

    type: str


class CountRequest(msgspec.Struct, kw_only=True):
    """Body of POST /v1/messages/count_tokens."""

    model: str
    messages: list[Turn]
    system: str | list[Block] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None


class MessagesRequest(CountRequest, kw_only=True):
    """Body of POST /v1/messages."""

    max_tokens: int
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
