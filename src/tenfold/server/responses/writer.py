"""Shapes a request's outputs into a response, streamed or whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from tenfold.core.request import RequestOutput
from tenfold.observe.metrics import RequestTimer
from tenfold.server.fanin import Batch
from tenfold.server.generation import Job, Tally, check_batch
from tenfold.server.logprobs import TokenTexts, chat_logprobs
from tenfold.server.parsing import found_in
from tenfold.server.replies import ChatTokenLogprob
from tenfold.server.responses.output import Event, OutputItems
from tenfold.server.responses.request import Item
from tenfold.server.sse import named_event
from tenfold.text.parsers.completion_parser import CompletionParser
from tenfold.text.parsers.events import CallBegun, Content, Reasoning

_encoder = msgspec.json.Encoder()


class ResponseWriter:
    """One response in the making.

    Args:
        job: the request.
        skeleton: the response's body without output, status and usage.
        timer: fed with every output.
        texts: token texts, for log probabilities.
        keep: called once with the finished body.
        parser: takes the text apart; None when it is text and nothing else.
    """

    def __init__(
        self,
        job: Job,
        skeleton: Item,
        timer: RequestTimer,
        texts: TokenTexts,
        keep: Callable[[Item], object],
        parser: CompletionParser | None = None,
    ) -> None:
        self._skeleton = skeleton
        self._texts = texts
        self._keep = keep
        self._tally = Tally(timer, job.sampling.n)
        self._items = OutputItems()
        self._finish: str | None = None
        self._parser = parser
        self._logprobs: list[ChatTokenLogprob] = []  # of tokens whose text is not shown yet
        self._sent = 0

    def chunks(self, batch: Batch) -> bytes:
        """The batch as complete events."""
        check_batch(batch)
        first = b""
        if self._sent == 0:
            begun = self.body("in_progress")
            first = b"".join(
                self._event({"type": f"response.{what}", "response": begun})
                for what in ("created", "in_progress")
            )
        self._take(batch)
        return first + b"".join(map(self._event, self._items.take()))

    def end(self) -> bytes:
        """The last event, with the whole response."""
        body = self.whole()
        return self._event({"type": f"response.{body['status']}", "response": body})

    def add(self, batch: Batch) -> None:
        """Gather a batch for `whole`."""
        check_batch(batch)
        self._take(batch)
        self._items.take()

    def whole(self) -> Item:
        """The reply's body; it is kept."""
        cut = self._finish == "length"
        body = self.body("incomplete" if cut else "completed")
        if cut:
            body["incomplete_details"] = {"reason": "max_output_tokens"}
        self._keep(body)
        return body

    def body(self, status: str) -> Item:
        """The response as of now."""
        done = status in ("completed", "incomplete")
        return {
            **self._skeleton,
            "status": status,
            "output": [dict(item) for item in self._items.items],
            "completed_at": int(time.time()) if done else None,
            "usage": self._usage() if done else None,
        }

    def _take(self, batch: Batch) -> None:
        now = time.perf_counter()
        for at, output in batch:
            self._tally.note(at, output, now)
            self._say(output)
            if output.finish_reason is not None:
                self._finish = output.finish_reason
                self._items.end("incomplete" if output.finish_reason == "length" else "completed")

    def _say(self, output: RequestOutput) -> None:
        if output.logprobs:
            self._logprobs += chat_logprobs(output.logprobs, self._texts).content
        for one in found_in(self._parser, output.text, last=output.finish_reason is not None):
            if isinstance(one, Content):
                self._items.text(one.text, self._logprobs)
                self._logprobs = []
            elif isinstance(one, Reasoning):
                self._items.reasoning(one.text)
            elif isinstance(one, CallBegun):
                self._items.call(one.id, one.name)
            else:
                self._items.arguments(one.text)

    def _usage(self) -> dict[str, Any]:
        usage = self._tally.usage()
        cached = usage.prompt_tokens_details.cached_tokens
        return {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.total_tokens,
        }

    def _event(self, event: Event) -> bytes:
        data = _encoder.encode({**event, "sequence_number": self._sent})
        self._sent += 1
        return named_event(event["type"], data)
