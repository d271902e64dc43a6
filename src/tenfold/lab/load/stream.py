"""Reading a streamed completion: server-sent events to timed pieces of text."""

from __future__ import annotations

from typing import Any

import msgspec


class PromptDetails(msgspec.Struct, frozen=True):
    """Details of a prompt's usage."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct, frozen=True):
    """Tokens as the server counts them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: PromptDetails | None = None


class Delta(msgspec.Struct, frozen=True):
    """What a chunk of a chat adds."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: Any = None


class Choice(msgspec.Struct, frozen=True):
    """One completion's part of a chunk."""

    delta: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None

    @property
    def adds(self) -> bool:
        """Whether it has anything for the reader."""
        delta = self.delta
        if delta is None:
            return bool(self.text)
        return bool(delta.content or delta.reasoning_content or delta.reasoning or delta.tool_calls)


class StreamChunk(msgspec.Struct, frozen=True):
    """One event of the stream."""

    choices: list[Choice] = []
    usage: Usage | None = None
    error: Any = None


HEAD_BYTES = 400
_decoder = msgspec.json.Decoder(StreamChunk)


class EventSplitter:
    """Cuts a byte stream into the data of its server-sent events, whatever the borders of the pieces."""

    def __init__(self) -> None:
        self._line = b""
        self._data: list[bytes] = []

    @property
    def is_empty(self) -> bool:
        """Whether no event has begun."""
        return not self._line and not self._data

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of the events that end in this piece."""
        lines = (self._line + piece).split(b"\n")
        self._line = lines.pop()
        events = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events


def _is_plain_text(piece: bytes) -> bool:
    """Whether a piece is one event that adds text and says nothing else; not every such event is known.

    Decoding each event would take as long as the kernel does to receive it, on CPUs that the server needs. Quotes
    within texts are escaped, so none of the marks can be part of one.
    """
    at = max(piece.find(b'"content":"'), piece.find(b'"text":"'))
    return (
        at > 0
        and piece[piece.index(b':"', at) + 2] != _QUOTE
        and piece.startswith(b"data: {")
        and piece.endswith(b"}\n\n")
        and piece.count(b"\n") == 2
        and b'"finish_reason":null' in piece
        and b'"usage":{' not in piece
        and b'"error":' not in piece
    )


_QUOTE = ord('"')


class StreamReader:
    """Collects one streamed response.

    After it: `arrivals` are the times of the pieces of text, `usage` and `finish_reason` what the
    server sent, `complete` whether the stream came to its end, `error` what was wrong with it, `head` the
    first bytes.
    """

    def __init__(self) -> None:
        self.arrivals: list[float] = []
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.complete = False
        self.error: str | None = None
        self.head = b""
        self._splitter = EventSplitter()

    def feed(self, piece: bytes, now: float) -> None:
        """Take a piece of the body that arrived at `now`."""
        if len(self.head) < HEAD_BYTES:
            self.head += piece[: HEAD_BYTES - len(self.head)]
        if self._splitter.is_empty and _is_plain_text(piece):
            self.arrivals.append(now)
            return
        for data in self._splitter.feed(piece):
            if data == b"[DONE]":
                self.complete = True
                continue
            try:
                chunk = _decoder.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self.error = self.error or "an event is not a completion chunk"
                continue
            if chunk.error is not None:
                self.error = self.error or "an error event"
            self.usage = chunk.usage or self.usage
            if any(choice.adds for choice in chunk.choices):
                self.arrivals.append(now)
            for choice in chunk.choices:
                self.finish_reason = choice.finish_reason or self.finish_reason
