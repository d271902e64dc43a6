"""JSON, checked character by character as it comes."""

from __future__ import annotations

import re

# Characters that need no look of their own inside a string.
_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_BLANKS = " \t\n\r"
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_CLOSERS = {"{": "}", "[": "]"}
# What may follow in a number, by state; "" in the last column means that the number may end there.
_DIGITS = dict.fromkeys("0123456789", "whole")
_EXPONENT = dict.fromkeys("eE", "exponent sign")
_NUMBER: dict[str, dict[str, str]] = {
    "minus": {**_DIGITS, "0": "zero"},
    "zero": {".": "point", **_EXPONENT},
    "whole": {**_DIGITS, ".": "point", **_EXPONENT},
    "point": dict.fromkeys("0123456789", "fraction"),
    "fraction": {**dict.fromkeys("0123456789", "fraction"), **_EXPONENT},
    "exponent sign": {**dict.fromkeys("0123456789", "exponent"), "+": "exponent mark", "-": "exponent mark"},
    "exponent mark": dict.fromkeys("0123456789", "exponent"),
    "exponent": dict.fromkeys("0123456789", "exponent"),
}
_MAY_END = frozenset(("zero", "whole", "fraction", "exponent"))


class JsonScanner:
    """Follows one JSON value.

    What it lets out is at every moment the beginning of a valid value. Models write line breaks and tabs into strings
    as they are; those are let out escaped, as JSON wants them.
    """

    def __init__(self) -> None:
        self.done = False
        self.broken = False
        self._state = "value"
        self._open: list[str] = []
        self._number = ""
        self._left = ""  # of a literal
        self._hex = 0  # digits still to come

    def scan(self, text: str, at: int, end: int) -> tuple[int, str]:
        """Look at text[at:end]; return where it stopped, and what it lets out.

        It stops before `end` when the value is done, or before the character that breaks it.
        """
        out: list[str] = []
        while at < end and not self.done and not self.broken:
            if self._state == "string":
                run = _PLAIN.match(text, at, end)
                if run is not None:
                    out.append(run[0])
                    at = run.end()
                    continue
            shown = self._step(text[at])
            if shown is None:
                break  # a number that ended before this character, or a broken value
            if shown:
                out.append(shown)
            at += 1
        return at, "".join(out)

    def _step(self, character: str) -> str | None:
        """Take one character; return what to show of it, None when it does not belong."""
        state = self._state
        if state == "string":
            return self._in_string(character)
        if state == "number":
            following = _NUMBER[self._number].get(character)
            if following is not None:
                self._number = following
                return character
            if self._number not in _MAY_END:
                return self._break()
            self._end_value()
            return None if self.done else self._step(character)
        if state == "literal":
            if character != self._left[0]:
                return self._break()
            self._left = self._left[1:]
            if not self._left:
                self._end_value()
            return character
        if state == "escape":
            return self._in_escape(character)
        if character in _BLANKS:
            return character
        return self._between(state, character)

    def _in_string(self, character: str) -> str:
        if character == '"':
            if self._open and self._open[-1] == "key":
                self._open.pop()
                self._state = "colon"
            else:
                self._end_value()
        elif character == "\\":
            self._state = "escape"
        else:
            return _escaped(character)
        return character

    def _in_escape(self, character: str) -> str | None:
        if self._hex:
            if character not in "0123456789abcdefABCDEF":
                return self._break()
            self._hex -= 1
        elif character == "u":
            self._hex = 4
        elif character not in '"\\/bfnrt':
            return self._break()
        if not self._hex:
            self._state = "string"
        return character

    def _between(self, state: str, character: str) -> str | None:
        """A character outside strings, numbers and literals."""
        if state == "colon":
            if character != ":":
                return self._break()
            self._state = "value"
        elif state in ("first key", "key"):
            if character == "}" and state == "first key":
                self._close()
            elif character == '"':
                self._open.append("key")
                self._state = "string"
            else:
                return self._break()
        elif state == "after":
            if character == ",":
                self._state = "key" if self._open[-1] == "{" else "value"
            elif character == _CLOSERS[self._open[-1]]:
                self._close()
            else:
                return self._break()
        elif state == "first value" and character == "]":
            self._close()
        else:
            return self._begin(character)
        return character

    def _begin(self, character: str) -> str | None:
        """A value's first character."""
        if character == '"':
            self._state = "string"
        elif character in "{[":
            self._open.append(character)
            self._state = "first key" if character == "{" else "first value"
        elif character in _LITERALS:
            self._state, self._left = "literal", _LITERALS[character][1:]
        elif character == "-" or character in _DIGITS:
            self._state = "number"
            self._number = {"-": "minus", "0": "zero"}.get(character, "whole")
        else:
            return self._break()
        return character

    def _close(self) -> None:
        self._open.pop()
        self._end_value()

    def _end_value(self) -> None:
        self._state = "after"
        self.done = not self._open

    def _break(self) -> str | None:
        """Remember that the character just seen does not belong."""
        self.broken = True
        return None


def _escaped(character: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character) or f"\\u{ord(character):04x}"
