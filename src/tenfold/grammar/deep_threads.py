"""Threads for llguidance, which recurses deeper than a common stack allows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

# Only what is touched takes memory. A level of recursion takes 3 KiB and more; source.py bounds how many there are.
STACK_BYTES = 128 << 20
_stack_size = threading.Lock()


class DeepThreads:
    """A pool of a few threads with deep stacks; they end when nobody holds the pool.

    Args:
        threads: how many.
        name: of the threads.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run `call` in a thread."""
        with _stack_size:  # it is the process's: what another thread starts meanwhile gets a deep stack too
            before = threading.stack_size(STACK_BYTES)
            try:
                return self._pool.submit(call)
            finally:
                threading.stack_size(before)
