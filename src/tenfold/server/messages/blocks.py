"""A completion as blocks of a message: thoughts, texts, tools to use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from tenfold.server.messages.replies import (
    BlockDelta,
    BlockStart,
    BlockStop,
    InputDelta,
    ReplyBlock,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
)
from tenfold.server.sse import Template, named_event
from tenfold.text.parsers.events import CallBegun, Content, Event, Reasoning

_encode = msgspec.json.Encoder().encode
_DELTA = b"event: content_block_delta\n"


def named(data: msgspec.Struct, kind: str) -> bytes:
    """An event with its name, as this API has them."""
    return named_event(kind, _encode(data))


class BlockStream:
    """Writes what a parser finds as events of blocks, one block open at a time."""

    def __init__(self) -> None:
        self._index = -1
        self._kind: type[ReplyBlock] | None = None  # of the open block
        self._delta: Template | None = None

    def take(self, found: Iterable[Event]) -> list[bytes]:
        """Events for what was found."""
        parts: list[bytes] = []
        for one in found:
            if isinstance(one, CallBegun):
                self._open(ToolUseBlock(id=one.id, name=one.name, input={}), parts)
                continue
            if isinstance(one, Content) and self._kind is not TextBlock:
                self._open(TextBlock(text=""), parts)
            elif isinstance(one, Reasoning) and self._kind is not ThinkingBlock:
                self._open(ThinkingBlock(thinking=""), parts)
            assert self._delta is not None
            parts.append(_DELTA + self._delta.fill(one.text))
        return parts

    def close(self) -> list[bytes]:
        """The event that ends the open block, if there is one."""
        if self._kind is None:
            return []
        self._kind = None
        return [named(BlockStop(index=self._index), "content_block_stop")]

    def _open(self, block: ReplyBlock, parts: list[bytes]) -> None:
        parts += self.close()
        self._index += 1
        self._kind = type(block)
        parts.append(named(BlockStart(index=self._index, content_block=block), "content_block_start"))
        self._delta = Template(partial(_delta, self._index, self._kind))


def _delta(index: int, kind: type[ReplyBlock], text: str) -> bytes:
    delta: TextDelta | ThinkingDelta | InputDelta
    if kind is TextBlock:
        delta = TextDelta(text=text)
    elif kind is ThinkingBlock:
        delta = ThinkingDelta(thinking=text)
    else:
        delta = InputDelta(partial_json=text)
    return _encode(BlockDelta(index=index, delta=delta))


def whole_blocks(found: Iterable[Event]) -> list[ReplyBlock]:
    """The blocks that a stream of the same would put together."""
    gathered: list[tuple[Event, list[str]]] = []
    for one in found:
        if isinstance(one, CallBegun):
            gathered.append((one, []))
        elif isinstance(one, (Content, Reasoning)) and not (gathered and type(gathered[-1][0]) is type(one)):
            gathered.append((one, [one.text]))
        else:
            gathered[-1][1].append(one.text)
    return [_block(first, "".join(texts)) for first, texts in gathered]


def _block(first: Event, text: str) -> ReplyBlock:
    if isinstance(first, CallBegun):
        return ToolUseBlock(id=first.id, name=first.name, input=_arguments(text))
    return ThinkingBlock(thinking=text) if isinstance(first, Reasoning) else TextBlock(text=text)


def _arguments(text: str) -> object:
    """A tool's arguments. Those that end inside are wrapped, as Anthropic advises, since `input` must be an object."""
    try:
        arguments: dict[str, object] = msgspec.json.decode(text or "{}", type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        return {"INVALID_JSON": text}
    return arguments
