"""Request bodies into typed structs, with errors that name the field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from tenfold.core.errors import InvalidRequestError

T = TypeVar("T")

_WHERE = re.compile(r"^(?P<problem>.*?)(?: - at (?P<key>`key` in )?`(?P<path>\$[^`]*)`)?$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]*)`$")
_EXPECTED = re.compile(r"^Expected (?P<wanted>.+), got (?P<got>.+)$", re.DOTALL)
# Longest body that is read a second time only to say better what is wrong with it.
_EXPLAIN_LIMIT = 1 << 20
_MAX_EXPLAIN_DEPTH = 64


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode `body`; raises InvalidRequestError naming the field or the byte that is wrong."""
    if not body:
        raise InvalidRequestError("The request has no body; send a JSON object.", code="invalid_json")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _wrong_field(str(error)) from None
    except RecursionError:
        raise InvalidRequestError("The JSON is nested too deeply; flatten it.", code="invalid_json") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _malformed(body, str(error)) from None


def _wrong_field(message: str) -> InvalidRequestError:
    match = _WHERE.match(message)
    assert match is not None  # the pattern's problem part matches any text
    problem, path = match["problem"], (match["path"] or "$").removeprefix("$").removeprefix(".")
    if missing := _MISSING.match(problem):
        param = f"{path}.{missing['name']}" if path else missing["name"]
        return InvalidRequestError(f"{param} is missing; the request must give it.", param=param)
    where = f"a key of {path}" if match["key"] else (path or "the request's body")
    if expected := _EXPECTED.match(problem):
        text = f"{where} must be {_plain(expected['wanted'])}, not {_plain(expected['got'])}."
    else:
        text = f"{where} is not valid: {problem[:1].lower()}{problem[1:]}."
    return InvalidRequestError(text[:1].upper() + text[1:] if not path else text, param=path or None)


def _plain(types: str) -> str:
    return types.replace("`", "").replace(" | ", " or ")


def _malformed(body: bytes, problem: str) -> InvalidRequestError:
    param = None
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        param = _broken_string_path(body)
        where = f"in {param}, " if param else ""
        text = f"The body is not UTF-8: {where}byte {error.start} is 0x{body[error.start]:02x}; send UTF-8."
        return InvalidRequestError(text, param=param, code="invalid_utf8")
    if param := _broken_string_path(body):
        text = (
            f"{param} has half a surrogate pair (\\ud800 to \\udfff alone), which is no character; remove it."
        )
        return InvalidRequestError(text, param=param, code="invalid_unicode")
    detail = problem.removeprefix("JSON is malformed: ")
    text = f"The body is not valid JSON: {detail[:1].lower()}{detail[1:]}."
    return InvalidRequestError(text, code="invalid_json")


def _broken_string_path(body: bytes) -> str | None:
    """Path of the first string that holds a surrogate or a byte that is not UTF-8."""
    if len(body) > _EXPLAIN_LIMIT:
        return None
    try:
        document = json.loads(body.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    return next(_broken_strings(document, "", 0), None)


def _broken_strings(value: Any, path: str, depth: int) -> Iterator[str]:
    if depth > _MAX_EXPLAIN_DEPTH:
        return
    if isinstance(value, str):
        if any("\ud800" <= char <= "\udfff" for char in value):
            yield path or "the body"
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _broken_strings(item, f"{path}[{number}]", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if any("\ud800" <= char <= "\udfff" for char in key):
                yield f"a key of {path or 'the body'}"
            yield from _broken_strings(item, f"{path}.{key}" if path else key, depth + 1)
