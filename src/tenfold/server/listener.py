"""The listening socket: a TCP port, or a Unix socket in the file system."""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from tenfold.config.server import ServerSettings
from tenfold.core.errors import TenfoldError

_BACKLOG = 2048
# sockaddr_un's path on Linux, with its closing zero.
_MAX_UDS_BYTES = 107


def listen(settings: ServerSettings) -> socket.socket:
    """Take the settings' address, before anything slow is done for it.

    Raises TenfoldError when it cannot be had.
    """
    if settings.uds is not None:
        return _listen_unix(Path(settings.uds), int(settings.uds_mode, 8))
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
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise TenfoldError(_bind_problem(host, port, error)) from None
    return listener


def close_listener(settings: ServerSettings, listener: socket.socket) -> None:
    """Close it, and remove a Unix socket's file unless another server has put its own there."""
    listener.close()
    if settings.uds is not None and not _answers(settings.uds):
        with suppress(OSError):
            Path(settings.uds).unlink()


def address_of(settings: ServerSettings, listener: socket.socket) -> str:
    """What clients are told, such as "http://127.0.0.1:8000", or "unix:" and a path."""
    if settings.uds is not None:
        return f"unix:{settings.uds}"
    scheme = "https" if settings.ssl_certfile is not None else "http"
    host, port = settings.host, listener.getsockname()[1]
    shown = "127.0.0.1" if host in ("0.0.0.0", "") else "[::1]" if host == "::" else host
    if ":" in shown and not shown.startswith("["):
        shown = f"[{shown}]"
    return f"{scheme}://{shown}:{port}"


def _listen_unix(path: Path, mode: int) -> socket.socket:
    if len(os.fsencode(path)) > _MAX_UDS_BYTES:
        raise TenfoldError(f"The path {path} is longer than {_MAX_UDS_BYTES} bytes; choose another (--uds).")
    _clear_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Nobody may connect between its making and the setting of its mode.
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
        path.chmod(mode)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise TenfoldError(
            f"Cannot listen on the Unix socket {path}: {error.strerror}; choose another path (--uds)."
        ) from None
    finally:
        os.umask(before)
    return listener


def _clear_stale(path: Path) -> None:
    """Remove what a server that is gone left behind; raises TenfoldError for anything else that is there."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise TenfoldError(f"Cannot look at {path}: {error.strerror}; choose another path (--uds).") from None
    if not stat.S_ISSOCK(kind):
        raise TenfoldError(
            f"{path} is there already and no socket; remove it, or choose another path (--uds)."
        )
    if _answers(os.fspath(path)):
        raise TenfoldError(
            f"Another program listens on the Unix socket {path}; stop it, or choose another path (--uds)."
        )
    try:
        path.unlink()
    except OSError as error:
        raise TenfoldError(f"The old socket {path} cannot be removed: {error.strerror}.") from None


def _answers(path: str) -> bool:
    """Whether a program listens on a Unix socket; one that may not be asked counts as there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True


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
