"""Serving: the socket, the signals, the orderly end."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
import uvloop

from tenfold.config.server import ServerSettings
from tenfold.core.errors import TenfoldError
from tenfold.server.app import create_app
from tenfold.server.connection import Connection
from tenfold.server.engine import Engine
from tenfold.server.service import Service

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

    async def serve(self) -> None:
        """Start the engine and serve until stopped.

        Raises TenfoldError when the address cannot be had.
        """
        listener = self._listener or listen(self._settings)
        address = _address(self._settings.host, listener)
        self._loop = asyncio.get_running_loop()
        try:
            await self._engine.start()
            app = create_app(self._engine, self._settings)
            self._service = app.state.service
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
            self._uvicorn = _Uvicorn(config, ready=lambda: self._ready(address), signalled=self.stop)
            await self._uvicorn.serve(sockets=[listener])
        finally:
            listener.close()
            if self._draining is not None:
                self._draining.cancel()
                await asyncio.gather(self._draining, return_exceptions=True)
            if self._service is not None:
                self._service.close()
            await self._engine.stop()
            if self._service is not None:
                await self._end_replies(self._service)

    def stop(self) -> None:
        """Begin the orderly end; called again, end at once. Safe from signal handlers and other threads."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._begin_drain)

    def _ready(self, address: str) -> None:
        if self._on_ready is not None:
            self._on_ready(address)

    def _begin_drain(self) -> None:
        if self._uvicorn is None or self._service is None:
            return
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


def listen(settings: ServerSettings) -> socket.socket:
    """Take the settings' address, before anything slow is done for it.

    Raises TenfoldError when it cannot be had.
    """
    host, port = settings.host, settings.port
    if not 0 <= port <= 65535:
        raise TenfoldError(f"Port {port} does not exist; give one from 0 to 65535 (--port).")
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise TenfoldError(
            f"The host {host!r} is unknown; give an address of this machine, such as 127.0.0.1."
        ) from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
        listener.listen(2048)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise TenfoldError(_bind_problem(host, port, error)) from None
    return listener


def _bind_problem(host: str, port: int, error: OSError) -> str:
    number = error.errno
    if number == errno.EADDRINUSE:
        return f"Port {port} on {host} is taken by another program; stop it, or choose another port (--port)."
    if number in (errno.EACCES, errno.EPERM):
        return f"Port {port} needs more rights than this user has; choose one above 1023 (--port)."
    if number == errno.EADDRNOTAVAIL:
        return (
            f"{host} is no address of this machine; use 127.0.0.1, or 0.0.0.0 for all its addresses (--host)."
        )
    return f"Cannot listen on {host} port {port}: {error}."


def _address(host: str, listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    shown = "127.0.0.1" if host in ("0.0.0.0", "") else "[::1]" if host == "::" else host
    if ":" in shown and not shown.startswith("["):
        shown = f"[{shown}]"
    return f"http://{shown}:{port}"
