"""Request bodies: OpenAI's fields, and vLLM's extra sampling fields.

Unknown fields are ignored, so that clients written for other servers work.
"""

from __future__ import annotations

from typing import Any

import msgspec

# A Raw cannot be None.
NOT_GIVEN = msgspec.Raw(b"null")


class StreamOptions(msgspec.Struct, kw_only=True):
    """How to stream.

    Args:
        include_usage: send a last chunk with the usage and no choices.
        continuous_usage_stats: send the usage so far in every chunk.
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class JsonSchemaFormat(msgspec.Struct, kw_only=True):
    """The JSON Schema of a reply; `schema` is kept as it was written. It is always followed, strict or not."""

    schema: msgspec.Raw
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, kw_only=True):
    """The wanted form of the reply: text, json_object or json_schema."""

    type: str
    json_schema: JsonSchemaFormat | None = None


class StructuredOutputs(msgspec.Struct, kw_only=True):
    """vLLM's way to ask for a form: one of these.

    Args:
        json: a JSON Schema, or the text of one.
        regex: a regular expression.
        choice: texts of which the reply is one.
        grammar: a context-free grammar.
        json_object: any JSON object.
    """

    json: msgspec.Raw = NOT_GIVEN
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None


class GenerationRequest(msgspec.Struct, kw_only=True):
    """Fields that chats and completions share; None means not given."""

    model: str | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: msgspec.Raw = NOT_GIVEN
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    prompt_logprobs: int | None = None
    return_token_ids: bool | None = None
    priority: int | None = None
    cache_salt: str | None = None
    user: str | None = None


class ContentPart(msgspec.Struct, kw_only=True):
    """One part of a message's content; only text is built."""

    type: str
    text: str | None = None


class Message(msgspec.Struct, kw_only=True):
    """One message of a chat."""

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class ChatRequest(GenerationRequest, kw_only=True):
    """Body of POST /v1/chat/completions."""

    messages: list[Message]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    modalities: list[str] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class CompletionRequest(GenerationRequest, kw_only=True):
    """Body of POST /v1/completions."""

    prompt: str | list[str | int | list[int]]
    logprobs: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None
    add_special_tokens: bool | None = None


class TokenizeRequest(msgspec.Struct, kw_only=True):
    """Body of POST /tokenize: a prompt or messages."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    tools: list[dict[str, Any]] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    return_token_strs: bool | None = None


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    """Body of POST /detokenize."""

    tokens: list[int]
    model: str | None = None
