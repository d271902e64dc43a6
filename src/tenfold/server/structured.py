"""A request's wish for structured output, in OpenAI's or vLLM's words."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tenfold.core.errors import InvalidRequestError
from tenfold.core.structured_output import StructuredOutput
from tenfold.server.engine import Engine
from tenfold.server.protocol import NOT_GIVEN, GenerationRequest, ResponseFormat, StructuredOutputs
from tenfold.server.tools import Tooling

# A body with none of these asks for none; an escape may hide the letters of a name.
_NAMES = (b"response_format", b"structured_outputs", b"guided_", b"\\u")


def may_name_one(body: bytes) -> bool:
    """Whether a body may ask for structured output, which is compiled away from the event loop."""
    return any(name in body for name in _NAMES)


def compiled_output(engine: Engine, request: GenerationRequest) -> StructuredOutput | None:
    """What the request's text must match, compiled by `engine`; None when that is free. May take long.

    Raises:
        InvalidRequestError: naming the field that asks for what there is not, cannot be compiled, or is one too many.
    """
    wishes = list(_wishes(request))
    if not wishes:
        return None
    param, structured = wishes[0]
    if len(wishes) > 1:
        raise InvalidRequestError(
            f"{wishes[1][0]} cannot be given beside {param}; keep one of them.", param=wishes[1][0]
        )
    return _compiled(engine, structured, param)


def compiled_calls(engine: Engine, tools: Tooling) -> StructuredOutput | None:
    """The form of answers that must call a tool, compiled by `engine`; None when none must. May take long.

    Raises:
        InvalidRequestError: a tool's schema cannot be compiled.
    """
    return _compiled(engine, tools.form(), "tools") if tools.forced else None


def _compiled(engine: Engine, structured: StructuredOutput, param: str) -> StructuredOutput:
    try:
        structured.check()
        engine.compile_structured(structured)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{param}: {error}", param=param) from None
    return structured


def _wishes(request: GenerationRequest) -> Iterator[tuple[str, StructuredOutput]]:
    """Each field that asks for a form, by its path."""
    if request.response_format is not None:
        yield from _response_format(request.response_format)
    if request.structured_outputs is not None:
        named = list(_structured_outputs(request.structured_outputs))
        if not named:
            raise InvalidRequestError(
                "structured_outputs names no form; give json, regex, choice, grammar or json_object.",
                param="structured_outputs",
            )
        yield from named
    if request.guided_json != NOT_GIVEN:
        yield "guided_json", _schema(request.guided_json, "guided_json")
    if request.guided_regex is not None:
        yield "guided_regex", StructuredOutput("regex", request.guided_regex)
    if request.guided_choice is not None:
        yield "guided_choice", _choice(request.guided_choice)
    if request.guided_grammar is not None:
        yield "guided_grammar", StructuredOutput("grammar", request.guided_grammar)


def _response_format(form: ResponseFormat) -> Iterator[tuple[str, StructuredOutput]]:
    if form.type == "json_object":
        yield "response_format", StructuredOutput("json_object")
    elif form.type == "json_schema":
        if form.json_schema is None:
            raise InvalidRequestError(
                "response_format.json_schema is missing; give it a name and a schema.",
                param="response_format.json_schema",
            )
        param = "response_format.json_schema.schema"
        yield param, _schema(form.json_schema.schema, param)
    elif form.type != "text":
        raise InvalidRequestError(
            f"response_format {form.type[:40]!r} is not known; ask for text, json_object or json_schema.",
            param="response_format.type",
        )


def _structured_outputs(form: StructuredOutputs) -> Iterator[tuple[str, StructuredOutput]]:
    if form.json != NOT_GIVEN:
        yield "structured_outputs.json", _schema(form.json, "structured_outputs.json")
    if form.regex is not None:
        yield "structured_outputs.regex", StructuredOutput("regex", form.regex)
    if form.choice is not None:
        yield "structured_outputs.choice", _choice(form.choice)
    if form.grammar is not None:
        yield "structured_outputs.grammar", StructuredOutput("grammar", form.grammar)
    if form.json_object:
        yield "structured_outputs.json_object", StructuredOutput("json_object")


def _choice(choices: list[str]) -> StructuredOutput:
    return StructuredOutput("choice", msgspec.json.encode(choices).decode())


def _schema(raw: msgspec.Raw, param: str) -> StructuredOutput:
    """A schema, or the text of one, as it was written."""
    try:
        text = bytes(raw).decode()
        if text.startswith('"'):
            text = msgspec.json.decode(text, type=str)
    except (msgspec.DecodeError, ValueError):
        raise InvalidRequestError(f"{param} is not valid Unicode; mend it.", param=param) from None
    return StructuredOutput("json_schema", text)
