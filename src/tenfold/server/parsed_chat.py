"""A chat's reply with reasoning and tool calls in it."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec

from tenfold.core.request import RequestOutput
from tenfold.observe.metrics import RequestTimer
from tenfold.server.chat_writer import NOTHING, ChatWriter
from tenfold.server.fanin import Batch
from tenfold.server.generation import Gathered, Job, check_batch
from tenfold.server.logprobs import TokenTexts, chat_logprobs
from tenfold.server.parsing import NewParser
from tenfold.server.replies import (
    CalledFunction,
    ChatChunkChoice,
    ChatMessage,
    Delta,
    FunctionDelta,
    ToolCall,
    ToolCallDelta,
)
from tenfold.server.sse import event
from tenfold.text.parsers.completion_parser import CompletionParser
from tenfold.text.parsers.events import Arguments, CallBegun, Content, Event, Reasoning


class ParsedChatWriter(ChatWriter):
    """Shapes outputs into a chat's reply, whose text it takes apart.

    A whole reply is what the events of its stream are put together.

    Args:
        job: the request.
        timer: fed with every output.
        texts: token texts, for log probabilities.
        new_parser: makes the parser of one completion.
    """

    def __init__(self, job: Job, timer: RequestTimer, texts: TokenTexts, new_parser: NewParser) -> None:
        super().__init__(job, timer, texts)
        self._new_parser = new_parser
        self._parsers: dict[int, CompletionParser] = {}

    def chunks(self, batch: Batch) -> bytes:
        """The batch as complete events."""
        check_batch(batch)
        now = time.perf_counter()
        parts: list[bytes] = []
        for at, output in batch:
            choice = self._tally.note(at, output, now)
            template = self._templates.get(choice)
            if template is None:
                template = self._greet(choice, parts)
                self._parsers[choice] = self._new_parser()
            events = self._parsers[choice].push(output.text)
            if output.finish_reason is not None:
                events += self._parsers[choice].finish()
            elif not output.logprobs and not self._rich:
                for one in events:
                    if isinstance(one, Content):
                        parts.append(template.fill(one.text))
                    else:
                        parts.append(event(self._chunk(ChatChunkChoice(choice, _delta(one), None, None))))
                continue
            parts += self._last_or_rich(choice, output, events)
        return b"".join(parts)

    def _last_or_rich(self, choice: int, output: RequestOutput, events: list[Event]) -> list[bytes]:
        """Chunks of an output with log probabilities, ids, usage or an end: the last has that, the first the rest."""
        logprobs = chat_logprobs(output.logprobs, self._texts) if output.logprobs else None
        ids = self._ids(output)
        deltas = [_delta(one) for one in events]
        if not deltas and (logprobs or self._job.token_ids or output.finish_reason is not None):
            deltas.append(NOTHING)
        chunks = []
        for number, delta in enumerate(deltas):
            piece = ChatChunkChoice(choice, delta, logprobs, None, token_ids=ids)
            if output.finish_reason is not None and number == len(deltas) - 1:
                reason = _finish_reason(output.finish_reason, self._parsers[choice])
                piece = ChatChunkChoice(choice, delta, logprobs, reason, output.stop_reason, ids)
            chunks.append(event(self._chunk(piece)))
            logprobs, ids = None, msgspec.UNSET
        return chunks

    def _message(self, done: Gathered) -> tuple[ChatMessage, str | None]:
        parser = self._new_parser()
        events = [one for text in done.texts for one in parser.push(text)]
        message = _put_together([*events, *parser.finish()])
        return message, _finish_reason(done.finish_reason, parser)


def _finish_reason(reason: str | None, parser: CompletionParser) -> str | None:
    return "tool_calls" if reason == "stop" and parser.has_calls else reason


def _delta(one: Event) -> Delta:
    if isinstance(one, Content):
        return Delta(content=one.text)
    if isinstance(one, Reasoning):
        return Delta(reasoning_content=one.text, reasoning=one.text)
    if isinstance(one, CallBegun):
        function = FunctionDelta(name=one.name, arguments="")
        return Delta(tool_calls=[ToolCallDelta(one.index, one.id, "function", function)])
    return Delta(tool_calls=[ToolCallDelta(one.index, function=FunctionDelta(arguments=one.text))])


def _put_together(events: Iterable[Event]) -> ChatMessage:
    content: list[str] = []
    reasoning: list[str] = []
    begun: list[CallBegun] = []
    arguments: list[list[str]] = []
    for one in events:
        if isinstance(one, Content):
            content.append(one.text)
        elif isinstance(one, Reasoning):
            reasoning.append(one.text)
        elif isinstance(one, CallBegun):
            begun.append(one)
            arguments.append([])
        elif isinstance(one, Arguments):
            arguments[one.index].append(one.text)
    thought = "".join(reasoning) or msgspec.UNSET
    return ChatMessage(
        role="assistant",
        content="".join(content) if content or not (reasoning or begun) else None,
        reasoning_content=thought,
        reasoning=thought,
        tool_calls=[
            ToolCall(call.id, CalledFunction(call.name, "".join(pieces)))
            for call, pieces in zip(begun, arguments, strict=True)
        ]
        or msgspec.UNSET,
    )
