"""What `tenfold bench engine` measured: repeats, and the medians over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tenfold.lab.roofline import Ceilings, Roofline
from tenfold.lab.summary import Summary, median, summarize
from tenfold.lab.timed_runner import TimedStep


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """One measured stretch of steps.

    Args:
        seconds: by the clock, scheduling and sampling included.
        kernel_seconds: of them, in the runner and the kernels.
        tokens: prompt tokens computed (prefill) or tokens returned (decode).
        tokens_per_s: tokens / seconds.
        steps: engine steps.
        ceiling_seconds: each step's least time by the roofline, summed; None without measured ceilings.
        share_of_ceiling: ceiling_seconds / seconds; None likewise.
        latencies_ms: prefill: time to first token of each request; decode: time of each step, which is each
            sequence's time between two tokens.
    """

    seconds: float
    kernel_seconds: float
    tokens: int
    tokens_per_s: float
    steps: int
    ceiling_seconds: float | None
    share_of_ceiling: float | None
    latencies_ms: list[float]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of steps as timed, not yet priced."""

    seconds: float
    tokens: int
    steps: list[TimedStep]
    latencies: list[float]

    def price(self, roofline: Roofline, ceilings: Ceilings | None) -> Pass:
        """Set it against the ceilings, if there are any."""
        least = None
        if ceilings is not None:
            least = sum(roofline.price(step.chunks).seconds(ceilings) for step in self.steps)
        return Pass(
            seconds=self.seconds,
            kernel_seconds=sum(step.seconds for step in self.steps),
            tokens=self.tokens,
            tokens_per_s=self.tokens / self.seconds,
            steps=len(self.steps),
            ceiling_seconds=least,
            share_of_ceiling=None if least is None else least / self.seconds,
            latencies_ms=[1000 * value for value in self.latencies],
        )


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """One run of both passes; `decode` is None when one output token was asked for."""

    prefill: Pass
    decode: Pass | None


class EngineReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome: medians over the repeats, latencies over all repeats together."""

    model: str
    path: str
    isa: str
    threads: int
    prompt_len: int
    output_len: int
    batch: int
    depth: int
    repeat: int
    max_num_batched_tokens: int
    block_size: int
    seed: int
    weight_bytes: int
    kv_bytes: int
    weight_formats: dict[str, int]
    ceilings: Ceilings | None
    prefill_tokens_per_s: float
    decode_tokens_per_s: float | None
    ttft_ms: Summary
    itl_ms: Summary | None
    prefill_share_of_ceiling: float | None
    decode_share_of_ceiling: float | None
    repeats: list[Repeat]


def summarize_repeats(repeats: Sequence[Repeat]) -> dict[str, Any]:
    """The fields of EngineReport that sum up the repeats."""
    prefills = [each.prefill for each in repeats]
    decodes = [each.decode for each in repeats if each.decode is not None]
    return {
        "prefill_tokens_per_s": _median(prefills, lambda each: each.tokens_per_s),
        "decode_tokens_per_s": _median(decodes, lambda each: each.tokens_per_s),
        "ttft_ms": _latencies(prefills),
        "itl_ms": _latencies(decodes),
        "prefill_share_of_ceiling": _median(prefills, lambda each: each.share_of_ceiling),
        "decode_share_of_ceiling": _median(decodes, lambda each: each.share_of_ceiling),
        "repeats": list(repeats),
    }


def _median(passes: Sequence[Pass], value: Callable[[Pass], float | None]) -> float | None:
    values = [found for each in passes if (found := value(each)) is not None]
    return median(values) if values else None


def _latencies(passes: Sequence[Pass]) -> Summary | None:
    return summarize([value for each in passes for value in each.latencies_ms])
