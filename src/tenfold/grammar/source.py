"""A StructuredOutput as text that llguidance compiles, within limits that keep compiling short and shallow."""

from __future__ import annotations

import json

import msgspec
from llguidance import LLMatcher, grammar_from

from tenfold.core.errors import InvalidRequestError
from tenfold.core.structured_output import StructuredOutput

# llguidance compiles by recursion: over nested schemas, through references, and through rules. Beyond these counts a
# chain of them would need a deeper stack than the compiling threads have, or take seconds.
MAX_SCHEMA_NODES = 4000
MAX_RULES = 1000
MAX_REGEX_CHARS = 1 << 14
# Between JSON's tokens: a space, or a line break with some indentation. Without a bound a model at a loss can go on
# with blanks until its context is full.
_WHITESPACE = r" |\n[ \t]{0,48}"
_ANY_OBJECT = '{"type": "object"}'


def grammar_source(structured: StructuredOutput) -> str:
    """The grammar as llguidance's own JSON.

    Raises:
        InvalidRequestError: it is none, or more than is compiled here.
    """
    text = structured.text
    if structured.kind == "json_object":
        return _from_schema(_ANY_OBJECT)
    if structured.kind == "json_schema":
        _bound("schema", "objects and arrays", text.count("{") + text.count("["), MAX_SCHEMA_NODES)
        return _from_schema(text)
    if structured.kind == "regex":
        _bound("regular expression", "characters", len(text), MAX_REGEX_CHARS)
        return LLMatcher.grammar_from_regex(text)
    if structured.kind == "choice":
        return _from_choice(text)
    _bound("grammar", "colons, one or more a rule", text.count(":"), MAX_RULES)
    _bound("grammar", "opening brackets", sum(map(text.count, "({[")), MAX_SCHEMA_NODES)
    try:
        return grammar_from("grammar", text)
    except ValueError as error:
        raise InvalidRequestError(f"the grammar cannot be read: {error}.", param="structured") from None


def _from_schema(text: str) -> str:
    if text.strip() == "true":  # options go with objects only
        text = "{}"
    elif text.strip() == "false":
        raise InvalidRequestError("no text matches the schema false.", param="structured")
    try:
        return LLMatcher.grammar_from_json_schema(text, defaults={"whitespace_pattern": _WHITESPACE})
    except ValueError as error:
        raise InvalidRequestError(f"the schema cannot be read: {error}.", param="structured") from None


def _from_choice(text: str) -> str:
    try:
        choices = msgspec.json.decode(text, type=list[str])
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidRequestError(f"choice must be a list of texts: {error}.", param="structured") from None
    if not choices or "" in choices:
        raise InvalidRequestError("choice must name texts, none of them empty.", param="structured")
    # One lexeme for all of them: as lexemes of their own, thousands would each be followed at every token.
    return LLMatcher.grammar_from_lark("start: CHOICE\nCHOICE: " + " | ".join(map(json.dumps, choices)))


def _bound(what: str, of: str, count: int, limit: int) -> None:
    if count > limit:
        raise InvalidRequestError(
            f"the {what} has {count} {of}; the limit is {limit}. Make it smaller.", param="structured"
        )
