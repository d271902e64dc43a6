"""What load to make, and which server gets it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tenfold.core.errors import TenfoldError

ENDPOINTS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


class LoadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One load. Exactly one of `concurrency` and `request_rate` is set.

    Args:
        url: the server, with or without /v1 at its end.
        model: name in requests; None takes the first of /v1/models.
        endpoint: "chat" or "completions".
        concurrency: closed loop: clients, each with one request at a time.
        request_rate: open loop: Poisson arrivals a second.
        num_requests: requests in all.
        prompt_len: words of a random prompt.
        output_len: max_tokens of a request whose dataset line names none.
        dataset: JSONL file of prompts; None makes random ones.
        slo_ttft_ms: longest time to first token that counts as good; None is any.
        slo_itl_ms: longest mean time a token after the first that counts as good; None is any.
        ignore_eos: ask the server not to stop at end tokens.
        temperature: of sampling.
        timeout: seconds a request may take.
        seed: of prompts and arrivals.
    """

    url: str
    model: str | None = None
    endpoint: str = "chat"
    concurrency: int | None = None
    request_rate: float | None = None
    num_requests: int = 64
    prompt_len: int = 256
    output_len: int = 64
    dataset: Path | None = None
    slo_ttft_ms: float | None = None
    slo_itl_ms: float | None = None
    ignore_eos: bool = True
    temperature: float = 0.0
    timeout: float = 600.0
    seed: int = 0

    def check(self) -> None:
        """Raise TenfoldError naming the first value that makes no load."""
        if self.endpoint not in ENDPOINTS:
            raise TenfoldError(f"endpoint is {self.endpoint!r}; choose {' or '.join(ENDPOINTS)}.")
        if (self.concurrency is None) == (self.request_rate is None):
            raise TenfoldError("Give either a concurrency or a request rate.")
        for name in ("concurrency", "num_requests", "prompt_len", "output_len"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise TenfoldError(f"{name} is {value}; it must be at least 1.")
        for name in ("request_rate", "timeout"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise TenfoldError(f"{name} is {value}; it must be above 0.")
