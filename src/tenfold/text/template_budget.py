"""What rendering one chat template may use: time, steps, and the size of what it builds."""

from __future__ import annotations

import string
import time
from typing import Any

MAX_STEPS = 1_000_000
MAX_DEPTH = 60
MAX_INT_BITS = 4096
MAX_WIDTH = 1000


class TemplateLimitError(Exception):
    """A template passed a limit; the message completes "the chat template ..."."""


class Budget:
    """Counts what one rendering uses and stops it at the limits.

    Args:
        size: the largest text or value, in characters (a container's element counts a few).
        seconds: the longest time.
    """

    def __init__(self, size: int, seconds: float) -> None:
        self._size = size
        self._seconds = seconds
        self._total = 64 * size
        self._steps = MAX_STEPS
        self._deadline = time.monotonic() + seconds

    def step(self, chars: int = 1) -> None:
        """Count one turn of a loop, one call or one operator, and the text that it puts out."""
        self._steps -= 1
        if self._steps < 0:
            raise TemplateLimitError(f"takes more than {MAX_STEPS} steps")
        self._total -= chars
        if self._total < 0:
            raise TemplateLimitError(f"builds more than {64 * self._size} characters in all")
        if (chars > 4096 or not self._steps & 63) and time.monotonic() > self._deadline:
            raise TemplateLimitError(f"takes more than {self._seconds:g} seconds")

    def allow(self, size: int) -> None:
        """Refuse a value of this size before it is built, or count it."""
        if size > self._size:
            raise TemplateLimitError(f"builds a value of more than {self._size} characters")
        self.step(size)

    def built(self, value: Any) -> Any:
        """Count a value that an operation on bounded values gave, and return it."""
        if isinstance(value, (str, list, tuple, dict)):
            self.allow(len(value))
        else:
            self.step()
        return value

    def weigh(self, *values: Any) -> int:
        """Return about how many characters the values have as text; refuse nested ones that explode."""
        return _weigh(values, self._size, 0, self._size)


def _weigh(value: Any, room: int, depth: int, size: int) -> int:
    if isinstance(value, str):
        weight = 1 + len(value)
    elif isinstance(value, (list, tuple, dict)):
        if depth > MAX_DEPTH:
            raise TemplateLimitError(f"nests values more than {MAX_DEPTH} deep")
        weight = 4
        for item in value.items() if isinstance(value, dict) else value:
            if isinstance(value, dict):
                weight += _weigh(item[0], room - weight, depth + 1, size)
                item = item[1]
            weight += 4 + _weigh(item, room - weight, depth + 1, size)
    else:
        weight = 8
    if weight > room:
        raise TemplateLimitError(f"builds a value of more than {size} characters")
    return weight


def weigh_input(*values: Any) -> int:
    """Return about how many characters the caller's values have, without a limit on size."""
    return _weigh(values, 1 << 62, 0, 1 << 62)


def binary(budget: Budget, operator: str, left: Any, right: Any) -> None:
    """Refuse `left operator right` when the result would be too large."""
    if operator == "*":
        for sequence, times in ((left, right), (right, left)):
            if isinstance(sequence, (str, list, tuple)) and isinstance(times, int):
                budget.allow(len(sequence) * max(int(times), 0))
                return
        _refuse_bits(_bits(left) + _bits(right))
    elif operator == "**":
        exponent = abs(right) if isinstance(right, (int, float)) else 0
        if isinstance(left, int) and isinstance(right, int):
            _refuse_bits(_bits(left) * max(exponent, 1))
    elif operator == "+":
        if isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
            budget.allow(len(left) + len(right))
    elif operator == "%" and isinstance(left, str):
        printf(budget, left, right)
    budget.step()


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _refuse_bits(bits: float) -> None:
    if bits > MAX_INT_BITS:
        raise TemplateLimitError(f"builds a number of more than {MAX_INT_BITS} bits")


def printf(budget: Budget, pattern: str, values: Any) -> None:
    """Refuse printf-style formatting with great widths, or of values that are too large together."""
    run = ""
    for part in pattern.split("%")[1:]:
        run = part[: len(part) - len(part.lstrip("0123456789.*-+# "))]
        if "*" in run or any(len(digits) > 3 for digits in run.replace("-", ".").split(".")):
            raise TemplateLimitError(f"formats to a width of more than {MAX_WIDTH}")
    budget.allow(len(pattern) + pattern.count("%") * (MAX_WIDTH // 8 + budget.weigh(values)))


def str_format(budget: Budget, pattern: str, values: Any) -> None:
    """Refuse str.format with great widths, or of values that are too large together."""
    fields = 0
    for _, name, spec, _ in string.Formatter().parse(pattern):
        if name is None:
            continue
        fields += 1
        if "{" in (spec or "") or any(len(d) > 3 for d in _digit_runs(spec or "")):
            raise TemplateLimitError(f"formats to a width of more than {MAX_WIDTH}")
    budget.allow(len(pattern) + fields * (MAX_WIDTH // 8 + budget.weigh(values)))


def _digit_runs(text: str) -> list[str]:
    return "".join(c if c.isdigit() else " " for c in text).split()
