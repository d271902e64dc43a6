"""How the served model's replies are taken apart: chosen once at start, made into parsers for each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tenfold.config.server import ServerSettings
from tenfold.core.errors import InvalidRequestError
from tenfold.server.engine import Engine
from tenfold.text.parsers.completion_parser import CompletionParser
from tenfold.text.parsers.registry import reasoning_format, tool_format

NewParser = Callable[[], CompletionParser]

# Longer than any tag that a template writes at its end, in tokens.
_END_OF_PROMPT = 16


class ReplyParsing:
    """The formats of one model.

    Args:
        engine: whose template and tokenizer count.
        settings: tool_call_parser and reasoning_parser are used.
    """

    def __init__(self, engine: Engine, settings: ServerSettings) -> None:
        source = None if engine.chat_template is None else engine.chat_template.source
        self.tools = tool_format(settings.tool_call_parser, source)
        self.reasoning = reasoning_format(settings.reasoning_parser, source)
        self._takes_tools = source is None or "tools" in source
        self._tokenizer = engine.tokenizer
        self._special = frozenset(engine.tokenizer.special_texts)

    def check_template(self) -> None:
        """Raise InvalidRequestError when the model's template would leave a request's tools out."""
        if not self._takes_tools:
            raise InvalidRequestError(
                "this model's chat template has no place for tools; leave tools out, or serve a model made for them.",
                param="tools",
            )

    def parser(
        self, prompt: tuple[int, ...], schemas: Mapping[str, Mapping[str, Any]], *, parallel: bool
    ) -> tuple[NewParser | None, tuple[int, ...]]:
        """Return what makes a parser for each completion of a request, and the special tokens that it must see.

        Args:
            prompt: the request's prompt.
            schemas: its tools; empty when answers may have no calls.
            parallel: whether an answer may have several calls.

        Returns:
            None, and no tokens, when answers are content and nothing else.
        """
        tools = self.tools if schemas else None
        is_open: bool | None = False
        if self.reasoning is not None:
            end = self._tokenizer.decode(prompt[-_END_OF_PROMPT:], skip_special=False)
            is_open = self.reasoning.is_open(end)
        if tools is None and is_open is False:
            return None, ()
        marks = (
            *(() if is_open is False or self.reasoning is None else self.reasoning.marks),
            *(() if tools is None else tools.marks),
        )
        special = tuple(mark for mark in dict.fromkeys(marks) if mark in self._special)
        new = partial(
            CompletionParser,
            reasoning=self.reasoning,
            is_open=is_open,
            tools=tools,
            schemas=schemas,
            special=special,
            parallel=parallel,
        )
        return new, tuple(self._tokenizer.encode(mark, add_special=False)[-1] for mark in special)
