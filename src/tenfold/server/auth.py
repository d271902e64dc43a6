"""API keys."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from tenfold.server.errors import ApiError


class Keys:
    """The accepted API keys.

    Args:
        keys: empty lets everyone in.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = [key.encode() for key in keys]

    def check(self, authorization: bytes | None) -> None:
        """Raise ApiError 401 unless the header's value is "Bearer " and an accepted key.

        Every key is compared in constant time, so that the time taken tells nothing about them.
        """
        if not self._keys:
            return
        scheme, _, given = (authorization or b"").partition(b" ")
        if scheme.lower() != b"bearer" or not given:
            raise self._refusal("This server needs an API key; send the header Authorization: Bearer KEY.")
        known = False
        for key in self._keys:
            known |= hmac.compare_digest(key, given.strip())
        if not known:
            raise self._refusal("The API key is not one of this server's; check the Authorization header.")

    @staticmethod
    def _refusal(message: str) -> ApiError:
        return ApiError(401, message, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})
