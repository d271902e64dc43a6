"""The tools of a request, and the calls in its messages, checked before a template sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tenfold.core.errors import InvalidRequestError

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")


def check_tools(tools: list[dict[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the JSON schema of each tool's arguments by the tool's name.

    Raises InvalidRequestError with the path of what is wrong.
    """
    schemas: dict[str, Mapping[str, Any]] = {}
    for number, tool in enumerate(tools):
        where = f"tools[{number}]"
        if tool.get("type") != "function":
            raise _wrong(f"{where}.type", 'must be "function", the only kind of tool there is')
        function = tool.get("function")
        if not isinstance(function, dict):
            raise _wrong(f"{where}.function", "is missing; give an object with the tool's name")
        name = function.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise _wrong(
                f"{where}.function.name",
                "must be 1 to 128 letters, digits, dots, dashes, underscores or slashes",
            )
        if name in schemas:
            raise _wrong(f"{where}.function.name", f"is {name}, as an earlier tool's; give each its own")
        if not isinstance(function.get("description") or "", str):
            raise _wrong(f"{where}.function.description", "must be a text")
        parameters = function.get("parameters")
        if parameters is not None and not isinstance(parameters, dict):
            raise _wrong(f"{where}.function.parameters", "must be a JSON schema, an object")
        schemas[name] = parameters or {}
    return schemas


def check_choice(choice: str | dict[str, Any] | None, schemas: Mapping[str, Any]) -> str | None:
    """Return "auto" or "none", or None when no tools are given.

    Raises InvalidRequestError for choices that mean nothing, or that cannot be kept.
    """
    if isinstance(choice, dict):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else None
        if choice.get("type") != "function" or not isinstance(name, str):
            raise _wrong("tool_choice", 'must be {"type": "function", "function": {"name": ...}}')
        if name not in schemas:
            raise _wrong("tool_choice.function.name", f"is {name[:60]!r}, which is none of the tools")
    elif choice not in (None, "none", "auto", "required"):
        raise _wrong("tool_choice", "must be none, auto, required or an object that names a function")
    if isinstance(choice, dict) or choice == "required":
        raise InvalidRequestError(
            "tool_choice can be none or auto; making the model call a tool is not supported yet.",
            param="tool_choice",
        )
    return (choice or "auto") if schemas else None


def check_calls(calls: list[dict[str, Any]], where: str) -> None:
    """Raise InvalidRequestError with the path of the first thing wrong in a message's tool calls."""
    for number, call in enumerate(calls):
        function = call.get("function")
        if not isinstance(function, dict):
            raise _wrong(f"{where}[{number}].function", "is missing; give an object with name and arguments")
        if not isinstance(function.get("name"), str):
            raise _wrong(f"{where}[{number}].function.name", "is missing; give the name of the tool")
        if not isinstance(function.get("arguments", ""), (str, dict)):
            raise _wrong(f"{where}[{number}].function.arguments", "must be JSON in a text")


def _wrong(param: str, problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"{param} {problem}.", param=param)
