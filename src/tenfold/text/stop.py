"""Stop strings in text that comes in parts."""

from __future__ import annotations

from collections.abc import Iterable


class StopMatcher:
    """Finds the first stop string in a text, however the text is cut into parts.

    The string that ends first wins; of those that end at the same character, the longest. Text that may be
    the beginning of a stop string is held back until it is clear, and no longer. A character costs constant
    time a stop string, amortized (Knuth, Morris and Pratt's matching).

    Args:
        stops: the strings; none may be empty.
        include: whether the text that is let out has the stop string too.
    """

    def __init__(self, stops: Iterable[str], *, include: bool = False) -> None:
        self._stops = tuple(stops)
        if any(not stop for stop in self._stops):
            raise ValueError("an empty stop string would match everywhere")
        self._include = include
        self._links = [_failure_links(stop) for stop in self._stops]
        self._states = [0] * len(self._stops)
        self._held = ""
        self._matched: str | None = None

    def push(self, text: str) -> tuple[str, str | None]:
        """Take the next part; return what can be let out now, and the stop string if it is found.

        After a match nothing more comes out.
        """
        if self._matched is not None:
            return "", self._matched
        if not self._stops:
            return text, None
        for index, character in enumerate(text):
            matched = self._step(character)
            if matched is not None:
                seen = self._held + text[: index + 1]
                self._held = ""
                self._matched = matched
                return (seen if self._include else seen[: len(seen) - len(matched)]), matched
        seen = self._held + text
        keep = len(seen) - max(self._states)
        self._held = seen[keep:]
        return seen[:keep], None

    def flush(self) -> str:
        """Return the text still held back, when no more comes."""
        held, self._held = self._held, ""
        self._states = [0] * len(self._stops)
        return held

    def _step(self, character: str) -> str | None:
        found: str | None = None
        for index, stop in enumerate(self._stops):
            links = self._links[index]
            state = self._states[index]
            while state and stop[state] != character:
                state = links[state - 1]
            if stop[state] == character:
                state += 1
            if state == len(stop):
                if found is None or len(stop) > len(found):
                    found = stop
                state = links[state - 1]
            self._states[index] = state
        return found


def _failure_links(stop: str) -> list[int]:
    """For each prefix, the length of its longest proper prefix that is also its suffix."""
    links = [0] * len(stop)
    length = 0
    for index in range(1, len(stop)):
        while length and stop[index] != stop[length]:
            length = links[length - 1]
        if stop[index] == stop[length]:
            length += 1
        links[index] = length
    return links
