"""A real server on a free port, in a thread of the test's process."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from types import TracebackType
from typing import Any

import httpx
import uvloop

from tenfold.config.server import ServerSettings
from tenfold.server.run import Server


class RunningServer:
    """Serves an engine while the block lasts; `client` talks to it, over TLS by the context `verify`."""

    def __init__(self, engine: Any, *, verify: Any = True, **settings: Any) -> None:
        self.engine = engine
        self._verify = verify
        self._uds = settings.get("uds")
        self._ready = threading.Event()
        self.url = ""
        self.error: BaseException | None = None
        self._folder = tempfile.TemporaryDirectory()
        settings.setdefault("data_dir", self._folder.name)
        self.server = Server(engine, ServerSettings(port=0, **settings), on_ready=self._on_ready)
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> RunningServer:
        self.thread.start()
        assert self._ready.wait(20), self.error
        if self._uds is None:
            self.client = httpx.Client(base_url=self.url, timeout=20, verify=self._verify)
        else:
            transport = httpx.HTTPTransport(uds=self._uds)
            self.client = httpx.Client(base_url="http://localhost", timeout=20, transport=transport)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self.server.stop()
        self.thread.join(15)
        self._folder.cleanup()
        assert not self.thread.is_alive()
        assert self.error is None, self.error
        assert getattr(self.engine, "stopped", True)  # only the fake one tells

    def _on_ready(self, url: str) -> None:
        self.url = url
        self._ready.set()

    def _run(self) -> None:
        try:
            uvloop.run(self.server.serve())
        except BaseException as error:
            self.error = error


def wait_until(true: Any, seconds: float = 5.0) -> None:
    """Wait until `true()`; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.005)


def run_async(main: Any) -> Any:
    """Run a coroutine in a fresh loop."""
    return asyncio.run(main)
