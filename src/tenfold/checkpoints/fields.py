"""Typed, checked access to the fields of a metadata table or a JSON object."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tenfold.core.errors import CheckpointError


class Fields:
    """Fields by key, whose wrong types and ranges become CheckpointErrors that name file, key and offset.

    Args:
        file: for messages.
        values: the fields; a value of None counts as absent.
        offsets: the byte at which each key stands, where that is known.
        noun: what a key is called in messages.
    """

    def __init__(
        self,
        file: object,
        values: Mapping[str, Any],
        offsets: Mapping[str, int] | None = None,
        noun: str = "field",
    ) -> None:
        self.file = file
        self.values = values
        self.offsets = offsets or {}
        self.noun = noun

    def error(self, key: str, problem: str) -> CheckpointError:
        """A CheckpointError about one key; `problem` continues the sentence that starts with it."""
        return CheckpointError(self.file, f"{self.noun} {key!r} {problem}", offset=self.offsets.get(key))

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.values.get(key) is not None

    def integer(self, key: str, default: int | None = None, *, low: int = 0, high: int = 2**31 - 1) -> int:
        """An integer between low and high; an array of one repeated integer counts as that integer."""
        value = self.values.get(key)
        if value is None:
            if default is None:
                raise self.error(key, "is missing")
            return default
        if isinstance(value, np.ndarray) and value.size and value.dtype.kind in "iu":
            if bool((value != value[0]).any()):
                raise self.error(key, "is an array of different values, which is not supported")
            value = int(value[0])
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"must be an integer, not {_kind(value)}")
        if not low <= value <= high:
            raise self.error(key, f"is {value}, outside {low} to {high}")
        return value

    def number(
        self, key: str, default: float | None = None, *, high: float = 1e12, zero: bool = False
    ) -> float:
        """A finite number above 0 (or 0, if `zero`) up to `high`."""
        value = self.values.get(key)
        if value is None:
            if default is None:
                raise self.error(key, "is missing")
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(key, f"must be a number, not {_kind(value)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.error(key, f"is {value}")
        if not 0 <= value <= high or (value == 0 and not zero):
            raise self.error(key, f"is {value}, outside 0 to {high:g}")
        return float(value)

    def text(self, key: str, default: str | None = None) -> str | None:
        """A string, or the default when absent."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.error(key, f"must be a string, not {_kind(value)}")
        return value

    def boolean(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, not {_kind(value)}")
        return value

    def table(self, key: str) -> Fields | None:
        """A nested object, or None when absent; its messages name it by a dotted path."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(key, f"must be an object, not {_kind(value)}")
        return Fields(self.file, value, noun=f"{self.noun} {key!r},")


def _kind(value: object) -> str:
    """A value's type in plain words."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "an array"
    return "an object"
