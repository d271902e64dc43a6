"""Messages of this API as the chat templates' messages."""

from __future__ import annotations

from typing import Any

import msgspec

from tenfold.core.errors import InvalidRequestError
from tenfold.server.messages.protocol import Block, CountRequest, Turn
from tenfold.server.protocol import ContentPart, Message

_SUPPORTED = "text, tool_use, tool_result and thinking"


def chat_messages(request: CountRequest) -> list[Message]:
    """The request's chat, turns of the same role put together.

    Raises InvalidRequestError naming the block that cannot be taken.
    """
    messages: list[Message] = []
    if request.system:
        messages.append(Message(role="system", content=_texts(request.system, "system")))
    names: dict[str, str] = {}
    for number, turn in enumerate(request.messages):
        where = f"messages[{number}]"
        if turn.role == "assistant":
            _add_assistant(messages, turn, f"{where}.content", names)
        elif turn.role == "user":
            _add_user(messages, turn, f"{where}.content", names)
        else:
            raise InvalidRequestError(
                f"{where}.role is {turn.role[:40]!r}; it must be user or assistant (system is a field of its own).",
                param=f"{where}.role",
            )
    return messages


def tools_of(request: CountRequest) -> list[dict[str, Any]]:
    """The request's tools as the chat templates know them. Raises InvalidRequestError for tools of Anthropic's own."""
    tools = []
    for number, tool in enumerate(request.tools or ()):
        if tool.type not in (None, "custom"):
            raise InvalidRequestError(
                f"tools[{number}] is of type {tool.type[:40]!r}, which only Anthropic runs; define a tool of your own.",
                param=f"tools[{number}].type",
            )
        function: dict[str, Any] = {"name": tool.name, "parameters": tool.input_schema or {}}
        if tool.description is not None:
            function["description"] = tool.description
        tools.append({"type": "function", "function": function})
    return tools


def choice_of(request: CountRequest) -> str | dict[str, Any] | None:
    """The request's choice of tools in OpenAI's words. Raises InvalidRequestError for one that is not known."""
    choice = request.tool_choice
    if choice is None:
        return None
    if choice.type == "tool":
        return {"type": "function", "function": {"name": choice.name}}
    names = {"auto": "auto", "none": "none", "any": "required"}
    if choice.type not in names:
        raise InvalidRequestError(
            f"tool_choice.type is {choice.type[:40]!r}; it must be auto, none, any or tool.",
            param="tool_choice.type",
        )
    return names[choice.type]


def continues(request: CountRequest) -> bool:
    """Whether the last message is the beginning of the reply. Raises InvalidRequestError when it calls a tool."""
    last = request.messages[-1] if request.messages else None
    if last is None or last.role != "assistant":
        return False
    if isinstance(last.content, list) and any(block.type == "tool_use" for block in last.content):
        raise InvalidRequestError(
            "The last message uses a tool; give the tool's result in a message of the user.", param="messages"
        )
    return True


def _add_user(messages: list[Message], turn: Turn, where: str, names: dict[str, str]) -> None:
    for at, block in _blocks(turn.content, where):
        if block.type != "tool_result":
            _add_text(messages, "user", block, at)
            continue
        if block.tool_use_id is None:
            raise InvalidRequestError(f"{at}.tool_use_id is missing.", param=f"{at}.tool_use_id")
        messages.append(
            Message(
                role="tool",
                content=_texts(block.content or "", f"{at}.content"),
                tool_call_id=block.tool_use_id,
                name=names.get(block.tool_use_id),
            )
        )


def _add_assistant(messages: list[Message], turn: Turn, where: str, names: dict[str, str]) -> None:
    for at, block in _blocks(turn.content, where):
        if block.type == "text":
            _add_text(messages, "assistant", block, at)
            continue
        message = _last(messages, "assistant")
        if block.type == "thinking":
            message.reasoning_content = (message.reasoning_content or "") + (block.thinking or "")
        elif block.type == "tool_use":
            if block.id is None or block.name is None:
                raise InvalidRequestError(f"{at} must have id and name.", param=at)
            names[block.id] = block.name
            arguments = msgspec.json.encode(block.input or {}).decode()
            call = {
                "id": block.id,
                "type": "function",
                "function": {"name": block.name, "arguments": arguments},
            }
            message.tool_calls = [*(message.tool_calls or ()), call]
        elif block.type != "redacted_thinking":  # nobody but its maker can read that
            raise _unsupported(block, at)


def _add_text(messages: list[Message], role: str, block: Block, where: str) -> None:
    message = _last(messages, role)
    assert not isinstance(message.content, str)
    message.content = [*(message.content or ()), _part(block, where)]


def _last(messages: list[Message], role: str) -> Message:
    """The chat's last message, which a turn of this role goes on with or begins."""
    if not messages or messages[-1].role != role:
        messages.append(Message(role=role))
    return messages[-1]


def _blocks(content: str | list[Block], where: str) -> list[tuple[str, Block]]:
    """(field path, block) of each block; a text is a block too."""
    if isinstance(content, str):
        return [(where, Block(type="text", text=content))]
    if not content:
        raise InvalidRequestError(f"{where} is empty; give a text or at least one block.", param=where)
    return [(f"{where}[{number}]", block) for number, block in enumerate(content)]


def _texts(content: str | list[Block], where: str) -> str | list[ContentPart]:
    if isinstance(content, str):
        return content
    return [_part(block, f"{where}[{number}]") for number, block in enumerate(content)]


def _part(block: Block, where: str) -> ContentPart:
    if block.type != "text":
        raise _unsupported(block, where)
    if block.text is None:
        raise InvalidRequestError(f"{where}.text is missing; give a text.", param=f"{where}.text")
    return ContentPart(type="text", text=block.text)


def _unsupported(block: Block, where: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{where} is of type {block.type[:40]!r}, which this server does not take here; it knows {_SUPPORTED}.",
        param=where,
    )
