"""How the served model's replies are taken apart: chosen once at start, made into parsers for each request."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import msgspec

from tenfold.config.server import ServerSettings
from tenfold.core.errors import InvalidRequestError
from tenfold.core.sampling_params import SamplingParams
from tenfold.server.engine import Engine
from tenfold.server.tools import Tooling
from tenfold.text.parsers import generic_json
from tenfold.text.parsers.completion_parser import CompletionParser
from tenfold.text.parsers.events import Content, Event
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

    def check_template(self, tools: Tooling) -> None:
        """Raise InvalidRequestError when the model's template would leave a request's tools out."""
        if tools.schemas and not self._takes_tools:
            raise InvalidRequestError(
                "this model's chat template has no place for tools; leave tools out, or serve a model made for them.",
                param="tools",
            )

    def parser(
        self, prompt: tuple[int, ...], tools: Tooling, sampling: SamplingParams
    ) -> tuple[NewParser | None, SamplingParams]:
        """Return what makes a parser for each completion of a request, and how to sample so that it sees its marks.

        Args:
            prompt: the request's prompt.
            tools: what its answers may call.
            sampling: how to pick tokens. Answers that are held to a form are that form and nothing else.

        Returns:
            None, and the same sampling, when answers are content and nothing else.
        """
        if tools.forced:
            return self._forced(tools), sampling
        held = sampling.structured is not None
        form = self.tools if tools.schemas else None
        is_open: bool | None = False
        if self.reasoning is not None and not held:
            end = self._tokenizer.decode(prompt[-_END_OF_PROMPT:], skip_special=False)
            is_open = self.reasoning.is_open(end)
        if held or (form is None and is_open is False):
            return None, sampling
        marks = (
            *(() if is_open is False or self.reasoning is None else self.reasoning.marks),
            *(() if form is None else form.marks),
        )
        special = tuple(mark for mark in dict.fromkeys(marks) if mark in self._special)
        new = partial(
            CompletionParser,
            reasoning=self.reasoning,
            is_open=is_open,
            tools=form,
            schemas=tools.schemas,
            special=special,
            parallel=tools.parallel,
        )
        if special:
            ids = tuple(self._tokenizer.encode(mark, add_special=False)[-1] for mark in special)
            sampling = msgspec.structs.replace(sampling, shown_special_ids=ids)
        return new, sampling

    def _forced(self, tools: Tooling) -> NewParser:
        """What reads answers that are held to JSON; ids are as the model's template wants them back."""
        form = generic_json.FORMAT
        if self.tools is not None:
            form = dataclasses.replace(form, new_id=self.tools.new_id)
        return partial(CompletionParser, tools=form, schemas=tools.schemas, parallel=tools.parallel)


def found_in(parser: CompletionParser | None, text: str, *, last: bool) -> list[Event]:
    """What a completion's next piece of text told, and the last piece what was held back; without a parser, content."""
    if parser is None:
        return [Content(text)] if text else []
    return [*parser.push(text), *(parser.finish() if last else ())]
