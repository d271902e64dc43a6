"""What one API key may still use: requests and tokens a minute, requests at once."""

from __future__ import annotations

import math
from collections.abc import Callable

from tenfold.config.key_file import KeyEntry
from tenfold.server.errors import ApiError
from tenfold.server.token_bucket import TokenBucket

_CODE = "rate_limit_exceeded"


class KeyLimits:
    """Counts what a key uses; used from one event loop.

    Args:
        entry: the limits.
        clock: seconds that never go back.
    """

    def __init__(self, entry: KeyEntry, clock: Callable[[], float]) -> None:
        self.entry = entry
        self._clock = clock
        self._running = 0
        self._requests = self._bucket(None, entry.requests_per_minute)
        self._tokens = self._bucket(None, entry.tokens_per_minute)

    def change(self, entry: KeyEntry) -> None:
        """Take new limits; what was used stays used."""
        self.entry = entry
        self._requests = self._bucket(self._requests, entry.requests_per_minute)
        self._tokens = self._bucket(self._tokens, entry.tokens_per_minute)

    def begin(self) -> None:
        """Let a request in.

        Raises ApiError 429, and takes nothing, when too many run or came in the last minute, or tokens are owed.
        """
        limit = self.entry.max_concurrent_requests
        if limit is not None and self._running >= limit:
            raise self._refusal(
                f"{self._running} requests of this key run, its limit; wait for one to end.", 1.0
            )
        if self._tokens is not None and self._tokens.remaining < 1:
            raise self._too_many_tokens(self._tokens, 1)
        if self._requests is not None and not self._requests.take(1):
            raise self._refusal(
                f"This key may send {self._requests.limit} requests a minute; try again later.",
                self._requests.wait(1),
            )
        self._running += 1

    def end(self, *, refund: bool) -> None:
        """A request that `begin` let in ended; `refund` gives it back, as the server could not serve it."""
        self._running -= 1
        if refund and self._requests is not None:
            self._requests.refund(1)

    def reserve(self, tokens: int) -> None:
        """Take tokens that a request may use; raises ApiError 429 and takes nothing when they are not there."""
        if self._tokens is not None and not self._tokens.take(tokens):
            raise self._too_many_tokens(self._tokens, tokens)

    def settle(self, *, reserved: int, used: int) -> None:
        """A request used other than it had reserved: give back the rest, or charge what is missing."""
        if self._tokens is None:
            return
        if used < reserved:
            self._tokens.refund(reserved - used)
        else:
            self._tokens.charge(used - reserved)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """OpenAI's headers that say how much is left."""
        found = []
        for what, bucket in (("requests", self._requests), ("tokens", self._tokens)):
            if bucket is not None:
                found += [
                    (f"x-ratelimit-limit-{what}".encode(), str(bucket.limit).encode()),
                    (f"x-ratelimit-remaining-{what}".encode(), str(bucket.remaining).encode()),
                    (f"x-ratelimit-reset-{what}".encode(), duration(bucket.wait(bucket.limit)).encode()),
                ]
        return found

    def _bucket(self, old: TokenBucket | None, limit: int | None) -> TokenBucket | None:
        if limit is None:
            return None
        if old is None:
            return TokenBucket(limit, self._clock)
        old.change(limit)
        return old

    def _too_many_tokens(self, bucket: TokenBucket, tokens: int) -> ApiError:
        if tokens > bucket.limit:
            # Waiting does not help, so no Retry-After.
            return ApiError(
                429,
                f"The request may use {tokens} tokens (prompt and max_tokens); this key may use {bucket.limit} "
                "a minute. Shorten the prompt or lower max_tokens.",
                code=_CODE,
            )
        return self._refusal(
            f"This key may use {bucket.limit} tokens a minute, of which {bucket.remaining} are left, and this "
            f"request may use {tokens}; try again later.",
            bucket.wait(tokens),
        )

    @staticmethod
    def _refusal(message: str, wait: float) -> ApiError:
        headers = {"Retry-After": str(max(1, math.ceil(wait)))}
        return ApiError(429, message, code=_CODE, headers=headers)


def duration(seconds: float) -> str:
    """Seconds as OpenAI writes them: "6m0s", "1.5s", "20ms"."""
    milliseconds = math.ceil(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:g}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
