"""What is known of one HTTP request besides its contents: for the log, the limits and the headers."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from starlette.types import Scope

from tenfold.core.sampling_params import SamplingParams
from tenfold.server.key_limits import KeyLimits
from tenfold.server.replies import Usage

_SCOPE_KEY = "tenfold.record"
# What proxies and clients commonly make; anything else could forge lines of a log, or fill it.
_SANE_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
_MAX_PATH = 256

current_record: ContextVar[RequestRecord | None] = ContextVar("current_record", default=None)


class TokenCounts(Protocol):
    """Where a record finds a request's tokens when it ends."""

    @property
    def finish_reasons(self) -> Sequence[str]:
        """How each completion ended."""

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from arrival to the first token, None before it."""

    @property
    def stages(self) -> tuple[float | None, float | None, float | None, float | None]:
        """When it was queued, planned, and gave its first and last token, in time.perf_counter's seconds."""

    def usage(self) -> Usage:
        """Tokens so far."""


class RequestRecord:
    """One request, from its arrival on.

    Args:
        scope: ASGI's.
    """

    def __init__(self, scope: Scope) -> None:
        self.id = request_id(scope)
        self.started_at = time.time()
        self.ended_at = self.started_at
        self._started = time.perf_counter()
        self._ended = self._started
        self.method: str = scope["method"]
        # As it was sent, percent-encoded, so that no path can break a line.
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        self.path = raw[:_MAX_PATH].decode("ascii", "backslashreplace")
        client = scope.get("client")
        self.client: str | None = client[0] if client else None
        self.key: str | None = None
        self.limits: KeyLimits | None = None
        self.model: str | None = None
        self.response_id: str | None = None
        self.sampling: SamplingParams | None = None
        self.status = 0
        self.error: str | None = None
        self.reserved = 0
        self.prompt_tokens = 0
        self._settled = False
        self._counts: list[TokenCounts] = []

    def count(self, counts: TokenCounts) -> None:
        """Ask `counts` for tokens at the end."""
        self._counts.append(counts)

    def reserve(self, prompt_tokens: int, output_tokens: int) -> None:
        """Take tokens from the key's limit before they are used; raises ApiError 429."""
        if self.limits is not None:
            self.limits.reserve(prompt_tokens + output_tokens)
            self.reserved += prompt_tokens + output_tokens
            self.prompt_tokens += prompt_tokens

    def settle(self, *, refused: bool) -> int:
        """Give the key back what was reserved and not used, or charge what is missing; returns what was used.

        Args:
            refused: the server did nothing for this request.
        """
        used = self.used_tokens
        if not refused:
            # A client that goes away before the first token has had its prompt computed all the same.
            used = max(used, self.prompt_tokens)
        if self.limits is not None:
            self.limits.settle(reserved=self.reserved, used=used)
        self._settled = True
        return used

    def completed(self, tokens: int) -> None:
        """A completion ended with so many tokens; one that outlives its request is charged now."""
        if self._settled and self.limits is not None:
            self.limits.settle(reserved=0, used=tokens)

    @property
    def used_tokens(self) -> int:
        """Prompt and output tokens, by what is known now."""
        return sum(counts.usage().total_tokens for counts in self._counts)

    @property
    def finish_reasons(self) -> list[str]:
        """How each completion ended."""
        return [reason for counts in self._counts for reason in counts.finish_reasons]

    def end(self) -> None:
        """All is done."""
        self._ended = time.perf_counter()
        self.ended_at = self.started_at + self._ended - self._started

    def stages(self) -> list[float]:
        """When the engine queued, planned, gave the first token and the last, as far as it came; seconds since 1970."""
        times: list[float] = []
        for at, stamps in enumerate(zip(*(counts.stages for counts in self._counts), strict=True)):
            known = [stamp for stamp in stamps if stamp is not None]
            if not known:
                break
            moment = max(known) if at == 3 else min(known)
            times.append(self.started_at + moment - self._started)
        return times

    def fields(self) -> dict[str, Any]:
        """The record, after `end`, as a log has it."""
        fields: dict[str, Any] = {
            "request_id": self.id,
            "client": self.client,
            "key": self.key,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "duration_s": round(self._ended - self._started, 6),
        }
        if self.error is not None:
            fields["error"] = self.error
        if self._counts:
            usages = [counts.usage() for counts in self._counts]
            times = [counts.time_to_first_token for counts in self._counts]
            known = [seconds for seconds in times if seconds is not None]
            fields.update(
                prompt_tokens=sum(usage.prompt_tokens for usage in usages),
                cached_tokens=sum(usage.prompt_tokens_details.cached_tokens for usage in usages),
                completion_tokens=sum(usage.completion_tokens for usage in usages),
                ttft_s=round(min(known), 6) if known else None,
                finish_reasons=self.finish_reasons,
            )
        return fields


def request_id(scope: Scope) -> str:
    """The client's x-request-id if it is short and plain, or a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _SANE_ID.fullmatch(value):
            return str(value.decode("ascii"))
    return new_request_id()


def new_request_id() -> str:
    """An id that no other request has."""
    return f"req_{uuid.uuid4().hex}"


def begin_record(scope: Scope) -> RequestRecord:
    """Make a request's record, to be found by `record_of` and `current_record`."""
    record = scope[_SCOPE_KEY] = RequestRecord(scope)
    current_record.set(record)
    return record


def record_of(scope: Scope) -> RequestRecord:
    """The record that `begin_record` made for this request."""
    record: RequestRecord = scope[_SCOPE_KEY]
    return record
