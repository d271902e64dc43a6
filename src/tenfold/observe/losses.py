"""Counting what could not be written, and complaining of it now and then."""

from __future__ import annotations

import logging
import time

_SECONDS_BETWEEN_COMPLAINTS = 60.0


class Losses:
    """What was lost on its way out of the server, which must not fail for it.

    Args:
        logger: gets an error when something is lost, once a minute at most.
        what: begins the sentence, such as "The audit log /var/log/x loses lines".
    """

    def __init__(self, logger: logging.Logger, what: str) -> None:
        self._logger = logger
        self._what = what
        self._next_complaint = 0.0
        self.count = 0

    def add(self, number: int, why: str) -> None:
        """So many more were lost."""
        self.count += number
        now = time.monotonic()
        if now >= self._next_complaint:
            self._next_complaint = now + _SECONDS_BETWEEN_COMPLAINTS
            self._logger.error("%s (%d so far): %s.", self._what, self.count, why)
