"""Serving: the signals, the reloading, the orderly end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from types import FrameType

import uvicorn
import uvloop

from tenfold.config.server import ServerSettings
from tenfold.server.app import create_app
from tenfold.server.batches.worker import Batches
from tenfold.server.connection import Connection
from tenfold.server.engine import Engine
from tenfold.server.listener import address_of, close_listener, listen
from tenfold.server.service import Service
from tenfold.server.tls import load_certificate, server_context

_POLL_S = 0.02
# After the drain only idle connections are left; they get this long to say goodbye.
_LINGER_S = 2
# After a second signal, what a client that reads gets its error event in.
_LAST_WORDS_S = 0.5
# Longer than clients keep idle connections, so that they close first and never write into a closed one.
_KEEP_ALIVE_S = 65


class Server:
    """One engine served at one address.

    A stop signal (or `stop`) lets running requests finish: new ones get 503 with Retry-After, and the server
    ends when the last is done or the time is up. A second signal ends it at once. Prints nothing.

    Args:
        engine: not started yet.
        settings: where to listen, and the limits.
        listener: from `listen`; None listens when served.
        on_ready: called with the address, such as "http://127.0.0.1:8000", once requests are taken.
    """

    def __init__(
        self,
        engine: Engine,
        settings: ServerSettings,
        *,
        listener: socket.socket | None = None,
        on_ready: Callable[[str], None] | None = None,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._listener = listener
        self._on_ready = on_ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task[None] | None = None
        self._uvicorn: _Uvicorn | None = None
        self._service: Service | None = None
        self._batches: Batches | None = None

    async def serve(self) -> None:
        """Start the engine and serve until stopped.

        Raises TenfoldError when the address cannot be had, or a file of the settings cannot be used.
        """
        tls = server_context(self._settings)
        listener = self._listener or listen(self._settings)
        address = address_of(self._settings, listener)
        self._loop = asyncio.get_running_loop()
        try:
            await self._engine.start()
            app = create_app(self._engine, self._settings)
            self._service = app.state.service
            self._obey_reloads(self._service, tls)
            self._batches = app.state.batches
            self._batches.start()
            config = uvicorn.Config(
                app,
                http=Connection,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_LINGER_S,
            )
            config.load()
            config.ssl = tls  # made by us, so that what is wrong with it was told before anything slow
            self._uvicorn = _Uvicorn(config, ready=lambda: self._ready(address), signalled=self.stop)
            await self._uvicorn.serve(sockets=[listener])
        finally:
            close_listener(self._settings, listener)
            if self._draining is not None:
                self._draining.cancel()
                await asyncio.gather(self._draining, return_exceptions=True)
            if self._batches is not None:
                await self._batches.close()
            if self._service is not None:
                self._service.close()
            await self._engine.stop()
            if self._service is not None:
                await self._end_replies(self._service)
                self._service.close_logs()

    def stop(self) -> None:
        """Begin the orderly end; called again, end at once. Safe from signal handlers and other threads."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._begin_drain)

    def _obey_reloads(self, service: Service, tls: ssl.SSLContext | None) -> None:
        settings = self._settings
        if tls is not None:
            # Connections that are open keep the certificate they began with.
            service.reloads.append(lambda: load_certificate(tls, settings))
        files = (settings.api_keys_file, settings.audit_log, settings.ssl_certfile)
        # At a terminal, and without a file to read again, SIGHUP keeps its meaning: the terminal is gone.
        if (any(files) or not os.isatty(0)) and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.reload)

    def _ready(self, address: str) -> None:
        if self._on_ready is not None:
            self._on_ready(address)

    def _begin_drain(self) -> None:
        if self._uvicorn is None or self._service is None or self._batches is None:
            return
        self._batches.pause()
        if self._draining is None:
            self._service.draining = True
            self._draining = asyncio.create_task(self._drain(self._service, self._uvicorn))
        else:
            self._uvicorn.force_exit = True
            self._uvicorn.should_exit = True

    async def _end_replies(self, service: Service) -> None:
        """Let the replies that the engine's end cut short be written; the event loop would cancel them."""
        deadline = asyncio.get_running_loop().time() + _LAST_WORDS_S
        while service.in_flight and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_POLL_S)

    async def _drain(self, service: Service, server: _Uvicorn) -> None:
        timeout = self._settings.shutdown_timeout_s
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            if not await self._engine.drain(timeout):
                # Ends what still runs, so that its clients are told instead of cut off.
                await self._engine.stop()
            # Done by the engine is not yet read by the client.
            while service.in_flight and loop.time() < deadline + _LINGER_S:
                await asyncio.sleep(_POLL_S)
        finally:
            server.should_exit = True


def run(
    engine: Engine,
    settings: ServerSettings,
    *,
    listener: socket.socket | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve in this thread until a stop signal; see Server."""
    server = Server(engine, settings, listener=listener, on_ready=on_ready)
    uvloop.run(server.serve())


class _Uvicorn(uvicorn.Server):
    """uvicorn that tells when it is ready, and leaves signals to us."""

    def __init__(
        self, config: uvicorn.Config, *, ready: Callable[[], None], signalled: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._signalled = signalled

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then tell."""
        await super().startup(sockets=sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A stop signal came."""
        self._signalled()
