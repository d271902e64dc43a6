"""One completion's text into reasoning, content and tool calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tenfold.text.parsers.events import Event, Sink
from tenfold.text.parsers.reader import Reader, Steps
from tenfold.text.parsers.reasoning import ReasoningFormat, read_reasoning
from tenfold.text.parsers.tool_format import ToolFormat, random_id


class CompletionParser:
    """Takes a completion's text in any pieces; the events put together are the same for all of them.

    Nothing that the model wrote is lost but blanks and the format's own tags: a call that is broken is content, or from
    where it breaks on if its arguments have begun. Arguments are at every moment the beginning of valid JSON.

    Args:
        reasoning: how the model writes its reasoning; None when it has none.
        is_open: whether the prompt opened the reasoning (ReasoningFormat.is_open); False looks for none.
        tools: how the model writes tool calls; None reads none.
        schemas: the request's tools: name to JSON schema of the arguments.
        special: which of the formats' marks are special tokens; they are never shown.
        parallel: false drops all calls but the first.
    """

    def __init__(
        self,
        *,
        reasoning: ReasoningFormat | None = None,
        is_open: bool | None = None,
        tools: ToolFormat | None = None,
        schemas: Mapping[str, Mapping[str, Any]] | None = None,
        special: Collection[str] = (),
        parallel: bool = True,
    ) -> None:
        self._reader = Reader(special)
        new_id = random_id if tools is None else tools.new_id
        self._sink = Sink(new_id, special, only_first=not parallel)
        self._in_reasoning = False
        self._steps = self._read(reasoning, is_open, tools, schemas or {})
        self._advance()

    @property
    def has_calls(self) -> bool:
        """Whether a call is complete."""
        return self._sink.complete_calls > 0

    def push(self, text: str) -> list[Event]:
        """Take the next piece; return what it told."""
        if text:
            self._reader.push(text)
            self._advance()
        return self._sink.take()

    def finish(self) -> list[Event]:
        """Return what was held back; nothing more may be pushed."""
        self._reader.end()
        self._advance()
        self._sink.finish(in_reasoning=self._in_reasoning)
        return self._sink.take()

    def _advance(self) -> None:
        next(self._steps, None)

    def _read(
        self,
        reasoning: ReasoningFormat | None,
        is_open: bool | None,
        tools: ToolFormat | None,
        schemas: Mapping[str, Mapping[str, Any]],
    ) -> Steps[None]:
        if reasoning is not None and is_open is not False:
            self._in_reasoning = True
            if not (yield from read_reasoning(self._reader, self._sink, reasoning, is_open)):
                return
            self._in_reasoning = False
        if tools is not None:
            yield from tools.read(self._reader, self._sink, schemas)
        else:
            yield from self._reader.opener(self._reader.tags(), self._sink.content)
