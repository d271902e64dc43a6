"""Replies of the Messages API, whole and streamed."""

from __future__ import annotations

from typing import Any

import msgspec

from tenfold.server.replies import Usage


class MessageUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of a message; the prompt is input_tokens and cache_read_input_tokens together."""

    input_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int
    output_tokens: int


class TextBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A text of the reply."""

    type: str = "text"
    text: str


class ThinkingBlock(msgspec.Struct, frozen=True, kw_only=True):
    """What the model thought; nothing signs it here."""

    type: str = "thinking"
    thinking: str
    signature: str = ""


class ToolUseBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the client shall use."""

    type: str = "tool_use"
    id: str
    name: str
    input: Any


ReplyBlock = TextBlock | ThinkingBlock | ToolUseBlock


class MessageReply(msgspec.Struct, frozen=True, kw_only=True):
    """Body of POST /v1/messages's reply."""

    id: str
    type: str = "message"
    role: str = "assistant"
    model: str
    content: list[ReplyBlock]
    stop_reason: str | None
    stop_sequence: str | None
    usage: MessageUsage


class TokenCount(msgspec.Struct, frozen=True):
    """Body of POST /v1/messages/count_tokens's reply."""

    input_tokens: int


class MessageStart(msgspec.Struct, frozen=True, kw_only=True):
    """The first event: the message, still empty."""

    type: str = "message_start"
    message: MessageReply


class BlockStart(msgspec.Struct, frozen=True, kw_only=True):
    """A block begins."""

    type: str = "content_block_start"
    index: int
    content_block: ReplyBlock


class TextDelta(msgspec.Struct, frozen=True, kw_only=True):
    """More of a text."""

    type: str = "text_delta"
    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, kw_only=True):
    """More of a thought."""

    type: str = "thinking_delta"
    thinking: str


class InputDelta(msgspec.Struct, frozen=True, kw_only=True):
    """More of a tool's arguments, as JSON text."""

    type: str = "input_json_delta"
    partial_json: str


class BlockDelta(msgspec.Struct, frozen=True, kw_only=True):
    """More of a block; the delta comes last, for Template."""

    type: str = "content_block_delta"
    index: int
    delta: TextDelta | ThinkingDelta | InputDelta


class BlockStop(msgspec.Struct, frozen=True, kw_only=True):
    """A block is whole."""

    type: str = "content_block_stop"
    index: int


class End(msgspec.Struct, frozen=True, kw_only=True):
    """Why a message ended."""

    stop_reason: str | None
    stop_sequence: str | None


class MessageDelta(msgspec.Struct, frozen=True, kw_only=True):
    """The message's end and its usage."""

    type: str = "message_delta"
    delta: End
    usage: MessageUsage


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """An event that says nothing but its name: ping, message_stop."""

    type: str


def message_usage(usage: Usage) -> MessageUsage:
    """Usage as this API counts it: the part of the prompt that came from the cache stands apart."""
    cached = usage.prompt_tokens_details.cached_tokens
    return MessageUsage(
        input_tokens=usage.prompt_tokens - cached,
        cache_read_input_tokens=cached,
        output_tokens=usage.completion_tokens,
    )
