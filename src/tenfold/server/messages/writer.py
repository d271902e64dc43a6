"""A message's reply, streamed or whole."""

from __future__ import annotations

import time

from tenfold.core.request import RequestOutput
from tenfold.observe.metrics import RequestTimer
from tenfold.server.errors import ApiError
from tenfold.server.fanin import Batch
from tenfold.server.generation import Gathered, Job, Tally, check_batch, gather
from tenfold.server.messages.blocks import BlockStream, named, whole_blocks
from tenfold.server.messages.errors import error_body
from tenfold.server.messages.replies import (
    End,
    MessageDelta,
    MessageReply,
    MessageStart,
    ReplyBlock,
    Signal,
    message_usage,
)
from tenfold.server.parsing import NewParser, found_in
from tenfold.server.sse import Dialect, event


class MessageWriter:
    """Shapes outputs into a message.

    Args:
        job: the request.
        timer: fed with every output.
        new_parser: makes what takes the text apart; None when all of it is content.
    """

    def __init__(self, job: Job, timer: RequestTimer, new_parser: NewParser | None) -> None:
        self._job = job
        self._tally = Tally(timer, 1)
        self._gathered: dict[int, Gathered] = {}
        self._parser = None if new_parser is None else new_parser()
        self._blocks: BlockStream | None = None
        self._end = End(stop_reason=None, stop_sequence=None)

    def chunks(self, batch: Batch) -> bytes:
        """The batch as complete events."""
        check_batch(batch)
        now = time.perf_counter()
        parts: list[bytes] = []
        for at, output in batch:
            self._tally.note(at, output, now)
            if self._blocks is None:
                self._blocks = BlockStream()
                parts.append(named(MessageStart(message=self._message([])), "message_start"))
                parts.append(named(Signal(type="ping"), "ping"))
            parts += self._blocks.take(
                found_in(self._parser, output.text, last=output.finish_reason is not None)
            )
            if output.finish_reason is not None:
                self._end = self._end_of(output)
        return b"".join(parts)

    def end(self) -> bytes:
        """The end of the last block, of the message, and the usage."""
        parts = [] if self._blocks is None else self._blocks.close()
        delta = MessageDelta(delta=self._end, usage=message_usage(self._tally.usage()))
        return b"".join(
            [*parts, named(delta, "message_delta"), named(Signal(type="message_stop"), "message_stop")]
        )

    def add(self, batch: Batch) -> None:
        """Gather a batch for `whole`."""
        gather(batch, self._tally, self._gathered)

    def whole(self) -> MessageReply:
        """The reply's body."""
        (done,) = self._gathered.values()
        blocks = whole_blocks(found_in(self._parser, "".join(done.texts), last=True))
        self._end = self._end_of(done)
        return self._message(blocks)

    def _end_of(self, output: RequestOutput | Gathered) -> End:
        if output.finish_reason == "length":
            return End(stop_reason="max_tokens", stop_sequence=None)
        if isinstance(output.stop_reason, str):
            return End(stop_reason="stop_sequence", stop_sequence=output.stop_reason)
        calls = self._parser is not None and self._parser.has_calls
        return End(stop_reason="tool_use" if calls else "end_turn", stop_sequence=None)

    def _message(self, content: list[ReplyBlock]) -> MessageReply:
        return MessageReply(
            id=self._job.id,
            model=self._job.model,
            content=content,
            stop_reason=self._end.stop_reason,
            stop_sequence=self._end.stop_sequence,
            usage=message_usage(self._tally.usage()),
        )


def _failed(error: ApiError) -> bytes:
    return b"event: error\n" + event(error_body(error))


DIALECT = Dialect(done=b"", failed=_failed)
