"""Threads with deep stacks."""

from __future__ import annotations

import gc
import threading
import time

from tenfold.grammar.deep_threads import DeepThreads


def test_calls_run_and_fail_in_their_threads() -> None:
    threads = DeepThreads(2, "deep-test")
    assert threads.submit(lambda: threading.current_thread().name).result().startswith("deep-test")
    assert isinstance(threads.submit(lambda: 1 // 0).exception(), ZeroDivisionError)
    assert threading.stack_size() == 0


def test_threads_end_with_their_pool() -> None:
    threads = DeepThreads(1, "deep-ending")
    threads.submit(lambda: None).result()
    del threads
    gc.collect()
    deadline = time.monotonic() + 10
    while any(thread.name.startswith("deep-ending") for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
