"""The tools of a request, its choice among them, and the calls in its messages, checked before a template sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tenfold.core.errors import InvalidRequestError
from tenfold.core.structured_output import StructuredOutput

_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
# Where schemas keep what they refer to.
_DEFINITIONS = ("$defs", "definitions")
# More calls than this in one answer are a model that cannot stop.
_MOST_CALLS = 16


class Tooling(msgspec.Struct, frozen=True, kw_only=True):
    """What a request's answers may call.

    Args:
        schemas: JSON schema of the arguments by tool's name; empty when no tool may be called.
        forced: the tools of which one must be called; empty leaves it to the model.
        parallel: an answer may have several calls.
    """

    schemas: dict[str, dict[str, Any]]
    forced: tuple[str, ...] = ()
    parallel: bool = True

    def form(self) -> StructuredOutput:
        """The form of an answer that is nothing but calls of the forced tools, as JSON.

        Raises InvalidRequestError when two tools define different things by the same name.
        """
        definitions: dict[str, dict[str, Any]] = {}
        calls = [_call_schema(name, self.schemas[name], definitions) for name in self.forced]
        one: dict[str, Any] = calls[0] if len(calls) == 1 else {"anyOf": calls}
        if self.parallel:
            one = {"type": "array", "items": one, "minItems": 1, "maxItems": _MOST_CALLS}
        return StructuredOutput("json_schema", msgspec.json.encode({**one, **definitions}).decode())


def tooling(
    tools: list[dict[str, Any]] | None, choice: str | dict[str, Any] | None, *, parallel: bool
) -> Tooling:
    """Check a request's tools and its choice, in OpenAI's shape.

    Raises InvalidRequestError with the path of what is wrong.
    """
    schemas = _check_tools(tools or [])
    if isinstance(choice, dict):
        # One tool is named, and one call of it is what was asked for.
        return Tooling(schemas=schemas, forced=(_named(choice, schemas),), parallel=False)
    if choice not in (None, "none", "auto", "required"):
        raise _wrong("tool_choice", "must be none, auto, required or an object that names a function")
    if choice == "none":
        return Tooling(schemas={})
    if choice == "required":
        if not schemas:
            raise _wrong("tool_choice", "is required, but there are no tools to call; give some")
        return Tooling(schemas=schemas, forced=tuple(schemas), parallel=parallel)
    return Tooling(schemas=schemas, parallel=parallel)


def check_calls(calls: list[dict[str, Any]], where: str) -> None:
    """Raise InvalidRequestError with the path of the first thing wrong in a message's tool calls."""
    for number, call in enumerate(calls):
        function = call.get("function")
        if not isinstance(function, dict):
            raise _wrong(f"{where}[{number}].function", "is missing; give an object with name and arguments")
        if not isinstance(function.get("name"), str):
            raise _wrong(f"{where}[{number}].function.name", "is missing; give the name of the tool")
        if not isinstance(function.get("arguments") or "", (str, dict)):
            raise _wrong(f"{where}[{number}].function.arguments", "must be JSON in a text")


def _check_tools(tools: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    schemas: dict[str, dict[str, Any]] = {}
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
                "must be 1 to 128 letters, digits, dots, colons, slashes, dashes or _",
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


def _named(choice: dict[str, Any], schemas: Mapping[str, Any]) -> str:
    function = choice.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if choice.get("type") != "function" or not isinstance(name, str):
        raise _wrong("tool_choice", 'must be {"type": "function", "function": {"name": ...}}')
    if name not in schemas:
        raise _wrong("tool_choice.function.name", f"is {name[:60]!r}, which is none of the tools")
    return name


def _call_schema(name: str, schema: dict[str, Any], definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The schema of a call of one tool; what its own schema defines moves into `definitions`, where references look."""
    arguments = {"type": "object", **schema}
    for place in _DEFINITIONS:
        defined = arguments.pop(place, None)
        if not isinstance(defined, dict):
            continue
        known = definitions.setdefault(place, {})
        for key, value in defined.items():
            if known.setdefault(key, value) != value:
                raise _wrong("tools", f"have two different {key!r} in {place}; rename one, or force one tool")
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _wrong(param: str, problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"{param} {problem}.", param=param)
