"""Text that comes in pieces, read as if it were there whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]
"""Something read; each `yield` waits for the next piece of the text."""

_BLANKS = re.compile(r"\s*")


class Tags:
    """A set of texts to look for; none may be the beginning of another.

    Args:
        wanted: what to look for.
        other: more of it, of less interest.
    """

    def __init__(self, *wanted: str, other: Iterable[str] = ()) -> None:
        self.wanted = wanted
        texts = tuple(dict.fromkeys((*wanted, *other)))
        self._texts = texts
        self._pattern = re.compile("|".join(map(re.escape, self._texts)) if texts else r"(?!)")
        self._longest = max(map(len, texts), default=0)

    def find(self, text: str, at: int) -> re.Match[str] | None:
        """Return the first tag at or after `at`."""
        return self._pattern.search(text, at)

    def held(self, text: str, at: int) -> int:
        """Return how many of the last characters may be the beginning of a tag."""
        longest = 0
        window = max(at, len(text) - self._longest + 1)
        for tag in self._texts:
            if text.find(tag[0], window) < 0:
                continue
            for size in range(min(len(tag) - 1, len(text) - at), longest, -1):
                if text.endswith(tag[:size]):
                    longest = size
                    break
        return longest


class Reader:
    """A position in a text that grows. What is read does not depend on how the text was cut into pieces.

    Args:
        special: special tokens that may be in the text; no value spans one.
    """

    def __init__(self, special: Iterable[str] = ()) -> None:
        self.special = tuple(special)
        self._special = Tags(*self.special)
        self._text = ""
        self._at = 0
        self._from: int | None = None
        self._ended = False

    def push(self, text: str) -> None:
        """Append the next piece."""
        base = self._at if self._from is None else self._from
        self._text = self._text[base:] + text
        self._at -= base
        if self._from is not None:
            self._from = 0

    def end(self) -> None:
        """No more pieces come."""
        self._ended = True

    def record(self, back: int = 0) -> None:
        """Remember what is read from here, or from so many characters before, on."""
        self._from = self._at - back

    def recorded(self) -> str:
        """Return what was read since `record`, and forget it; "" without one."""
        text = "" if self._from is None else self._text[self._from : self._at]
        self._from = None
        return text

    def rewind(self) -> None:
        """Go back to where `record` was called."""
        if self._from is not None:
            self._at, self._from = self._from, None

    def more(self) -> Steps[bool]:
        """Wait for the next piece; False when there is none."""
        if self._ended:
            return False
        yield
        return True

    def until(
        self, tags: Tags, give: Callable[[str], None], *, keep_partial: bool = True
    ) -> Steps[str | None]:
        """Give away the text before the first tag as it comes; return the tag, which is read, or None at the end.

        Args:
            tags: what to look for.
            give: takes the text.
            keep_partial: the beginning of a tag that the text ends with is text.
        """
        while True:
            found = tags.find(self._text, self._at)
            if found is not None:
                if found.start() > self._at:
                    give(self._text[self._at : found.start()])
                self._at = found.end()
                return found[0]
            held = 0 if self._ended and keep_partial else tags.held(self._text, self._at)
            safe = len(self._text) - held
            if safe > self._at:
                give(self._text[self._at : safe])
                self._at = safe
            if not (yield from self.more()):
                return None

    def opener(self, openers: Tags, give: Callable[[str], None]) -> Steps[str | None]:
        """As `until`, but special tokens that are no openers are left out. Make `openers` with `tags`."""
        while True:
            tag = yield from self.until(openers, give)
            if tag is None or tag not in self.special or tag in openers.wanted:
                return tag

    def tags(self, *wanted: str) -> Tags:
        """Return tags for `opener`: the wanted ones, and the special tokens."""
        return Tags(*wanted, other=self.special)

    def take(self, tag: str) -> Steps[bool]:
        """Read the tag if the text goes on with it, and not with a special token that begins like it."""
        while True:
            is_other: bool | None = None
            if self._text.startswith(tag, self._at):
                is_other = tag not in self.special and self._at_special()
                if is_other is False:
                    self._at += len(tag)
                    return True
            if is_other or not tag.startswith(self._text[self._at : self._at + len(tag)]):
                return False
            if not (yield from self.more()):
                return False

    def blanks(self) -> Steps[None]:
        """Read blanks, if there are any."""
        while True:
            match = _BLANKS.match(self._text, self._at)
            assert match is not None  # the pattern matches nothing too
            self._at = match.end()
            if self._at < len(self._text) or not (yield from self.more()):
                return

    def peek(self) -> Steps[str]:
        """Return the next character without reading it, "" at the end."""
        while self._at == len(self._text):
            if not (yield from self.more()):
                return ""
        return self._text[self._at]

    def word(self, pattern: re.Pattern[str]) -> Steps[str]:
        """Read as many characters as match `pattern`, which matches one at a time."""
        parts: list[str] = []
        while True:
            start = self._at
            while self._at < len(self._text) and pattern.match(self._text, self._at):
                self._at += 1
            parts.append(self._text[start : self._at])
            if self._at < len(self._text) or not (yield from self.more()):
                return "".join(parts)

    def part(self) -> Steps[tuple[str, int, int] | None]:
        """Return a text and the part of it (start and end) that can be read now; `move_to` says how far it was read.

        None at a special token, and at the end.
        """
        while True:
            mark = self._special.find(self._text, self._at)
            if mark is not None:
                end = mark.start()
            else:
                end = len(self._text) - (0 if self._ended else self._special.held(self._text, self._at))
            if self._at < end:
                return self._text, self._at, end
            if mark is not None or not (yield from self.more()):
                return None

    def _at_special(self) -> bool | None:
        """Whether a special token begins here; None when more text will tell."""
        if any(self._text.startswith(mark, self._at) for mark in self.special):
            return True
        left = len(self._text) - self._at
        may_be = any(
            left < len(mark) and self._text.startswith(mark[:left], self._at) for mark in self.special
        )
        return None if may_be and not self._ended else False

    def move_to(self, at: int) -> None:
        """Go on at a position inside the last part."""
        self._at = at
