"""The output items of a response while they are made, and the events that tell of it."""

from __future__ import annotations

import uuid
from typing import Any

from tenfold.server.replies import ChatTokenLogprob
from tenfold.server.responses.request import Item

Event = dict[str, Any]


class OutputItems:
    """Turns what a model says into items and events, in the order it is said.

    A change from one sort to another (reasoning, text, a call) ends the item before and begins the next. `events` has
    what happened since it was last taken, without sequence numbers.
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.events: list[Event] = []
        self._open: str | None = None  # "message", "reasoning" or "function_call"
        self._pieces: list[str] = []
        self._logprobs: list[ChatTokenLogprob] = []

    def text(self, delta: str, logprobs: list[ChatTokenLogprob] | None = None) -> None:
        """More of the visible text."""
        if self._open != "message":
            self._begin(
                {
                    "id": _new_id("msg"),
                    "type": "message",
                    "role": "assistant",
                    "status": "in_progress",
                    "content": [],
                }
            )
            self._tell("content_part.added", content_index=0, part=_text_part("", None))
        self._pieces.append(delta)
        if logprobs:
            self._logprobs += logprobs
        self._tell("output_text.delta", content_index=0, delta=delta, logprobs=logprobs or [])

    def reasoning(self, delta: str) -> None:
        """More of the thoughts before it."""
        if self._open != "reasoning":
            self._begin(
                {
                    "id": _new_id("rs"),
                    "type": "reasoning",
                    "status": "in_progress",
                    "summary": [],
                    "content": [],
                }
            )
            part = {"type": "reasoning_text", "text": ""}
            self._tell("content_part.added", content_index=0, part=part)
        self._pieces.append(delta)
        self._tell("reasoning_text.delta", content_index=0, delta=delta)

    def call(self, call_id: str, name: str) -> None:
        """A function call begins."""
        self._begin(
            {
                "id": _new_id("fc"),
                "type": "function_call",
                "status": "in_progress",
                "call_id": call_id,
                "name": name,
                "arguments": "",
            }
        )

    def arguments(self, delta: str) -> None:
        """More of the call's arguments."""
        self._pieces.append(delta)
        self._tell("function_call_arguments.delta", delta=delta)

    def end(self, status: str = "completed") -> None:
        """End the open item, if one is; `status` is completed or incomplete."""
        if self._open is None:
            return
        item, text = self.items[-1], "".join(self._pieces)
        item["status"] = status
        if self._open == "message":
            part: Item = _text_part(text, self._logprobs or None)
            item["content"] = [part]
            self._tell("output_text.done", content_index=0, text=text, logprobs=self._logprobs)
            self._tell("content_part.done", content_index=0, part=part)
        elif self._open == "reasoning":
            part = {"type": "reasoning_text", "text": text}
            item["content"] = [part]
            self._tell("reasoning_text.done", content_index=0, text=text)
            self._tell("content_part.done", content_index=0, part=part)
        else:
            item["arguments"] = text
            self._tell("function_call_arguments.done", name=item["name"], arguments=text)
        self._item_event("done")
        self._open = None
        self._pieces, self._logprobs = [], []

    def take(self) -> list[Event]:
        """The events since the last time."""
        events, self.events = self.events, []
        return events

    def _begin(self, item: Item) -> None:
        self.end()
        self._open = item["type"]
        self.items.append(item)
        self._item_event("added")

    def _item_event(self, what: str) -> None:
        # A copy: the item goes on changing, and events are encoded later.
        event = {"type": f"response.output_item.{what}", "output_index": len(self.items) - 1}
        self.events.append({**event, "item": dict(self.items[-1])})

    def _tell(self, what: str, **fields: Any) -> None:
        place = {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}
        self.events.append({"type": f"response.{what}", **place, **fields})


def _text_part(text: str, logprobs: list[ChatTokenLogprob] | None) -> Item:
    part: Item = {"type": "output_text", "text": text, "annotations": []}
    if logprobs is not None:
        part["logprobs"] = logprobs
    return part


def _new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"
