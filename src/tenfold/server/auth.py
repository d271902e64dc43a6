"""API keys: who asks, and whether they may."""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Callable
from pathlib import Path

from tenfold.config.key_file import SCOPES, KeyEntry, Scope, key_digest, read_key_file
from tenfold.config.server import ServerSettings
from tenfold.server.errors import ApiError
from tenfold.server.key_limits import KeyLimits

_logger = logging.getLogger("tenfold.server")
# Keys given one by one have no limits, and may ask for all but the changing of the server.
_PLAIN_SCOPES: tuple[Scope, ...] = ("inference", "metrics")


class Keys:
    """The accepted API keys.

    Args:
        settings: api_keys and api_keys_file are used; without both everyone is let in.
        clock: seconds that never go back, for the limits.

    Raises:
        TenfoldError: the key file is absent or wrong.
    """

    def __init__(self, settings: ServerSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = None if settings.api_keys_file is None else Path(settings.api_keys_file)
        self._plain = [
            # A colon is in no name of the file's.
            KeyEntry(name=f"api_key:{number}", digest=key_digest(key), scopes=_PLAIN_SCOPES)
            for number, key in enumerate(settings.api_keys, 1)
        ]
        self._clock = clock
        self._by_name: dict[str, KeyLimits] = {}
        self.load()

    def load(self) -> None:
        """Read the file again. Keys that are still there keep what they have used; a wrong file changes nothing.

        Raises TenfoldError when the file is absent or wrong.
        """
        entries = list(self._plain)
        if self._file is not None:
            listed, warnings = read_key_file(self._file)
            entries += listed
            for sentence in warnings:
                _logger.warning("%s", sentence)
        keys: dict[str, KeyLimits] = {}
        for entry in entries:
            limits = self._by_name.get(entry.name)
            if limits is None:
                limits = KeyLimits(entry, self._clock)
            else:
                limits.change(entry)
            keys[entry.name] = limits
        self._by_name = keys

    def check(self, authorization: bytes | None, path: str) -> KeyLimits | None:
        """Whose request it is; None when everyone may ask.

        Raises ApiError 401 unless the header's value is "Bearer " and an accepted key, and 403 when that key may not
        ask for `path`. Every key is compared in constant time, so that the time taken tells nothing about them.
        """
        wanted = _scopes_for(path)
        if not self._by_name:
            if wanted == ():
                raise self._no_scope(
                    "This server has no key with the scope admin; give one (--api-keys-file)."
                )
            return None
        scheme, _, given = (authorization or b"").partition(b" ")
        if scheme.lower() != b"bearer" or not given:
            raise self._refusal("This server needs an API key; send the header Authorization: Bearer KEY.")
        digest = hashlib.sha256(given.strip()).digest()
        found = None
        for limits in self._by_name.values():
            if hmac.compare_digest(limits.entry.digest, digest):
                found = limits
        if found is None:
            raise self._refusal("The API key is not one of this server's; check the Authorization header.")
        scopes = found.entry.scopes
        if "admin" not in scopes and not any(scope in wanted for scope in scopes):
            needed = " or ".join((*wanted, "admin"))
            raise self._no_scope(f"This API key has not the scope {needed} that {path[:100]} needs.")
        return found

    @staticmethod
    def _refusal(message: str) -> ApiError:
        return ApiError(401, message, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})

    @staticmethod
    def _no_scope(message: str) -> ApiError:
        return ApiError(403, message, code="insufficient_scope")


def _scopes_for(path: str) -> tuple[Scope, ...]:
    """The scopes that open a path, besides admin, which opens all."""
    if path.startswith("/admin/"):
        return ()
    if path == "/metrics":
        return ("metrics",)
    return SCOPES if path == "/version" else ("inference",)
