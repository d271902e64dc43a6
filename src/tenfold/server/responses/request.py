"""Body of POST /v1/responses, and its input items as messages of a chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tenfold.core.errors import InvalidRequestError
from tenfold.server.protocol import (
    NOT_GIVEN,
    ContentPart,
    GenerationRequest,
    JsonSchemaFormat,
    Message,
    ResponseFormat,
)

Item = dict[str, Any]

MAX_METADATA = 16
_ROLES = ("user", "assistant", "system", "developer")
_TEXT_PARTS = ("input_text", "output_text", "text")
_INCLUDABLE = ("message.output_text.logprobs", "reasoning.encrypted_content")


class TextFormat(msgspec.Struct, kw_only=True):
    """The wanted form of the text: text, json_object, or json_schema with its name and schema."""

    type: str = "text"
    name: str | None = None
    description: str | None = None
    schema: msgspec.Raw = NOT_GIVEN
    strict: bool | None = None

    def chat(self) -> ResponseFormat:
        """The same in the shape of chats."""
        if self.type != "json_schema":
            return ResponseFormat(type=self.type)
        if self.schema == NOT_GIVEN:
            raise InvalidRequestError("text.format.schema is missing; give one.", param="text.format.schema")
        return ResponseFormat(
            type=self.type, json_schema=JsonSchemaFormat(name=self.name or "schema", schema=self.schema)
        )

    def shown(self) -> Item:
        """The form as a response tells it."""
        if self.type != "json_schema":
            return {"type": self.type}
        schema = msgspec.json.decode(self.schema)
        told = {"name": self.name, "description": self.description, "schema": schema, "strict": self.strict}
        return {"type": self.type, **{name: value for name, value in told.items() if value is not None}}


class TextConfig(msgspec.Struct, kw_only=True):
    """Settings of the text."""

    format: TextFormat | None = None
    verbosity: str | None = None


class ResponsesRequest(GenerationRequest, kw_only=True):
    """Body of POST /v1/responses; fields it shares with chats mean the same there.

    Args:
        input: a text, or items: messages, function calls and their outputs, reasoning.
        instructions: a system message before the input; those of earlier turns do not count.
        max_output_tokens: most tokens of output.
        previous_response_id: a kept response to go on from: its input and output come before the input.
        store: keep the response, which is the default.
        background: answer at once and compute on; the response is asked for by its id.
    """

    input: str | list[Item] | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    background: bool | None = None
    include: list[str] | None = None
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: dict[str, Any] | None = None
    text: TextConfig | None = None
    tool_choice: str | dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    top_logprobs: int | None = None
    truncation: str | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    conversation: Any = None
    prompt: Any = None


def check(request: ResponsesRequest) -> None:
    """Refuse what is not built, each with its field."""
    refused = {
        "conversation": request.conversation is not None,
        "prompt": request.prompt is not None,
        "n": request.n not in (None, 1),
        "max_tokens": request.max_tokens is not None,
    }
    instead = {
        "conversation": "Conversations are not kept here; use previous_response_id.",
        "prompt": "Prompt templates are not kept here; send the input itself.",
        "n": "A response has one output; leave n out.",
        "max_tokens": "Responses call it max_output_tokens; use that.",
    }
    for name, wrong in refused.items():
        if wrong:
            raise InvalidRequestError(instead[name], param=name)
    if request.input is None:
        raise InvalidRequestError("input is missing; give a text or a list of items.", param="input")
    if request.max_output_tokens is not None and request.max_output_tokens < 1:
        raise InvalidRequestError("max_output_tokens must be at least 1.", param="max_output_tokens")
    if request.truncation not in (None, "disabled"):
        raise InvalidRequestError(
            "truncation can only be disabled; shorten the input yourself.", param="truncation"
        )
    if request.background and request.stream:
        raise InvalidRequestError(
            "background and stream cannot both be true; ask for a background response by its id.",
            param="background",
        )
    if request.background and request.store is False:
        raise InvalidRequestError(
            "A background response must be stored, or nobody could ask for it.", param="store"
        )
    for number, name in enumerate(request.include or ()):
        if name not in _INCLUDABLE:
            raise InvalidRequestError(
                f"include[{number}] is {name[:60]!r}; known are {', '.join(_INCLUDABLE)}.",
                param=f"include[{number}]",
            )
    _check_metadata(request.metadata or {})


def chat_tools(tools: Sequence[Item]) -> list[Item]:
    """Tools in the shape of chats. Raises InvalidRequestError for those that are no functions."""
    found = []
    for number, tool in enumerate(tools):
        if tool.get("type") != "function":
            raise InvalidRequestError(
                f"tools[{number}] is of type {str(tool.get('type'))[:40]!r}; only functions are supported.",
                param=f"tools[{number}].type",
            )
        function = {
            name: tool[name] for name in ("name", "description", "parameters", "strict") if name in tool
        }
        found.append({"type": "function", "function": function})
    return found


def chat_choice(choice: str | Item | None) -> str | Item | None:
    """tool_choice in the shape of chats."""
    if isinstance(choice, dict) and "function" not in choice:
        return {"type": choice.get("type"), "function": {"name": choice.get("name")}}
    return choice


def wants_logprobs(request: ResponsesRequest) -> bool:
    """Whether the log probabilities of the text are asked for."""
    return bool(request.top_logprobs) or "message.output_text.logprobs" in (request.include or ())


def items_of(source: str | list[Item]) -> list[Item]:
    """The input as items: a text is a user's message."""
    return [{"type": "message", "role": "user", "content": source}] if isinstance(source, str) else source


def messages_of(items: Sequence[Item], where: str) -> list[Message]:
    """Items as messages of a chat; calls and reasoning join the assistant's message they belong to.

    Args:
        items: in order.
        where: the field they come from, for errors.

    Raises:
        InvalidRequestError: naming the item that cannot be used.
    """
    messages: list[Message] = []
    for number, item in enumerate(items):
        param = f"{where}[{number}]"
        if not isinstance(item, dict):
            raise InvalidRequestError(f"{param} must be an item, an object with a type.", param=param)
        kind = item.get("type") or ("message" if "role" in item else None)
        match kind:
            case "message":
                message = _message(item, param)
                if message.role == "assistant" and messages and _only_thought(messages[-1]):
                    messages[-1].content = message.content
                else:
                    messages.append(message)
            case "function_call":
                speaker = _assistant(messages)
                speaker.tool_calls = [
                    *(speaker.tool_calls or ()),
                    {
                        "id": _text(item, "call_id", param),
                        "type": "function",
                        "function": {
                            "name": _text(item, "name", param),
                            "arguments": _text(item, "arguments", param),
                        },
                    },
                ]
            case "function_call_output":
                output = item.get("output")
                content = output if isinstance(output, str) else _parts(output, f"{param}.output")
                messages.append(
                    Message(role="tool", content=content, tool_call_id=_text(item, "call_id", param))
                )
            case "reasoning":
                text = "".join(
                    part["text"]
                    for part in item.get("content") or ()
                    if isinstance(part, Mapping) and isinstance(part.get("text"), str)
                )
                if text:
                    messages.append(Message(role="assistant", content="", reasoning_content=text))
            case None:
                raise InvalidRequestError(f"{param} has no type; give one.", param=f"{param}.type")
            case _:
                raise InvalidRequestError(
                    f"{param} is of type {str(kind)[:40]!r}, which is not supported; send messages, function "
                    "calls and their outputs.",
                    param=f"{param}.type",
                )
    return messages


def _assistant(messages: list[Message]) -> Message:
    """The assistant's message that is being put together, which is the last one."""
    if not messages or messages[-1].role != "assistant":
        messages.append(Message(role="assistant", content=""))
    return messages[-1]


def _only_thought(message: Message) -> bool:
    return bool(message.reasoning_content) and not message.content and not message.tool_calls


def _message(item: Item, param: str) -> Message:
    role = item.get("role")
    if role not in _ROLES:
        raise InvalidRequestError(
            f"{param}.role is {str(role)[:40]!r}; it must be one of {', '.join(_ROLES)}.",
            param=f"{param}.role",
        )
    content = item.get("content")
    return Message(
        role=role, content=content if isinstance(content, str) else _parts(content, f"{param}.content")
    )


def _parts(parts: object, param: str) -> list[ContentPart]:
    if not isinstance(parts, list):
        raise InvalidRequestError(f"{param} must be a text or a list of parts.", param=param)
    found = []
    for number, part in enumerate(parts):
        at = f"{param}[{number}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _TEXT_PARTS:
            raise InvalidRequestError(
                f"{at} is of type {str(kind)[:40]!r}, which is not supported yet; send text only.", param=at
            )
        found.append(ContentPart(type="text", text=_text(part, "text", at)))
    return found


def _text(item: Mapping[str, Any], name: str, param: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise InvalidRequestError(f"{param}.{name} must be a text.", param=f"{param}.{name}")
    return value


def _check_metadata(metadata: Mapping[str, str]) -> None:
    if len(metadata) > MAX_METADATA:
        raise InvalidRequestError(
            f"metadata has {len(metadata)} entries; the limit is {MAX_METADATA}.", param="metadata"
        )
    for key, value in metadata.items():
        if len(key) > 64 or len(value) > 512:
            raise InvalidRequestError(
                "metadata's keys may have 64 characters and its values 512; shorten them.", param="metadata"
            )
