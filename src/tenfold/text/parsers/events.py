"""What a parser finds in a completion, and where formats put it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class Content:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """A tool call begins; its arguments follow."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """More of a call's arguments, which are JSON text when put together."""

    index: int
    text: str


Event = Reasoning | Content | CallBegun | Arguments


class Sink:
    """Gathers events while a text is read.

    Blanks around tool calls, and around reasoning, are layout and not shown: blanks are held back until it is clear
    what follows them. Marks of the format that are special tokens are left out of all that is shown.

    Args:
        new_id: makes an id for a call whose format writes none.
        special: special tokens that may be in the text.
        only_first: leave out every call after the first.
    """

    def __init__(
        self, new_id: Callable[[], str], special: Iterable[str] = (), *, only_first: bool = False
    ) -> None:
        self._new_id = new_id
        self._special = tuple(special)
        self._only_first = only_first
        self._events: list[Event] = []
        self._blanks = ""
        self._has_content = self._has_reasoning = False
        self._calls = 0
        self.complete_calls = 0

    def take(self) -> list[Event]:
        """Return the events since the last time."""
        events, self._events = self._events, []
        return events

    def reasoning(self, text: str) -> None:
        """More reasoning."""
        shown = self._without_last_blanks(text)
        if not self._has_reasoning:
            shown = shown.lstrip()
        if shown:
            self._has_reasoning = True
            self._events.append(Reasoning(shown))

    def end_reasoning(self) -> None:
        """The reasoning is complete."""
        self._blanks = ""

    def content(self, text: str) -> None:
        """More content."""
        for mark in self._special:
            text = text.replace(mark, "")
        shown = self._without_last_blanks(text)
        if self._calls and not self._has_content:
            shown = shown.lstrip()
        if shown:
            self._has_content = True
            self._events.append(Content(shown))

    def begin_call(self, name: str, call_id: str | None = None) -> None:
        """A call begins."""
        if self._shows_call():
            self._events.append(CallBegun(self._calls, call_id or self._new_id(), name))
        self._calls += 1

    def arguments(self, text: str) -> None:
        """More arguments of the call begun last; what comes before is never taken back."""
        self._calls -= 1
        if text and self._shows_call():
            self._events.append(Arguments(self._calls, text))
        self._calls += 1

    def end_call(self) -> None:
        """The call begun last has all its arguments."""
        self.complete_calls += 1

    def finish(self, *, in_reasoning: bool) -> None:
        """Nothing more comes; blanks at the end belong to what was shown before them."""
        blanks, self._blanks = self._blanks, ""
        if blanks and in_reasoning and self._has_reasoning:
            self._events.append(Reasoning(blanks))
        elif blanks and not in_reasoning and not self._calls:
            self._events.append(Content(blanks))

    def _shows_call(self) -> bool:
        return not (self._only_first and self._calls)

    def _without_last_blanks(self, text: str) -> str:
        text = self._blanks + text
        shown = text.rstrip()
        self._blanks = text[len(shown) :]
        return shown
