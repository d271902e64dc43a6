"""The form that a completion's text must take."""

from __future__ import annotations

from typing import Literal

import msgspec

from tenfold.core.errors import InvalidRequestError

StructuredKind = Literal["json_schema", "json_object", "regex", "choice", "grammar"]

MAX_STRUCTURED_CHARS = 1 << 18


class StructuredOutput(msgspec.Struct, frozen=True):
    """What a completion's text must match, whole.

    Args:
        kind: how `text` is read.
        text: for json_schema a JSON Schema, for regex a regular expression (Rust's syntax, without look-around),
            for choice a JSON array of texts of which the completion is one, for grammar a context-free grammar
            (Lark, or the GBNF of llama.cpp). Not read for json_object, whose text is any JSON object.
    """

    kind: StructuredKind
    text: str = ""

    def check(self) -> None:
        """Raise InvalidRequestError for wrong types, a missing text, or one too long for anybody to compile."""
        try:
            msgspec.convert(msgspec.structs.asdict(self), StructuredOutput)
        except msgspec.ValidationError as error:
            raise InvalidRequestError(f"structured is wrong: {error}.", param="structured") from None
        if self.kind != "json_object" and not self.text:
            raise InvalidRequestError(f"the {self.kind} is empty; give its text.", param="structured")
        if len(self.text) > MAX_STRUCTURED_CHARS:
            raise InvalidRequestError(
                f"the {self.kind} has {len(self.text)} characters; the limit is {MAX_STRUCTURED_CHARS}.",
                param="structured",
            )
