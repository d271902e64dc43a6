"""From traces to figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from tenfold.lab.load.generator import Trace
from tenfold.lab.load.settings import LoadSettings
from tenfold.lab.summary import Summary, summarize


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a load measured. Latencies and rates are of the completed requests; times in ms.

    Args:
        duration_s: from the first request's due time to the last response's end.
        ttft_ms: due time to first text.
        itl_ms: between pieces of text, over all requests together; a piece may hold several tokens.
        tpot_ms: a request's mean time a token after its first.
        e2e_ms: due time to the end of the response.
        met_slo, goodput_per_s: requests that met both SLOs, and those a second; None without an SLO.
        tokens_counted_by: "usage" when the server counted output tokens, "chunks" when pieces of text
            stand for them.
        errors: failed requests by kind.
        first_failed_reply: the first bytes that the first failed request got; None without.
    """

    url: str
    model: str
    endpoint: str
    concurrency: int | None
    request_rate: float | None
    num_requests: int
    prompt_len: int
    output_len: int
    dataset: str
    seed: int
    slo_ttft_ms: float | None
    slo_itl_ms: float | None
    completed: int
    failed: int
    duration_s: float
    requests_per_s: float
    output_tokens_per_s: float
    prompt_tokens_per_s: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    tokens_counted_by: str
    peak_concurrency: int
    ttft_ms: Summary | None
    itl_ms: Summary | None
    tpot_ms: Summary | None
    e2e_ms: Summary | None
    met_slo: int | None
    goodput_per_s: float | None
    errors: dict[str, int]
    first_failed_reply: str | None


def ttft_ms(trace: Trace) -> float | None:
    """Time to first text; None when there was none."""
    return 1000 * (trace.arrivals[0] - trace.due) if trace.arrivals else None


def tpot_ms(trace: Trace) -> float | None:
    """Mean time a token after the first; None for a single token or piece."""
    tokens = trace.output_tokens or len(trace.arrivals)
    if tokens < 2 or len(trace.arrivals) < 2:
        return None
    return 1000 * (trace.arrivals[-1] - trace.arrivals[0]) / (tokens - 1)


def meets_slo(trace: Trace, ttft: float | None, itl: float | None) -> bool:
    """Whether a request completed within both limits; a request without text meets no limit on its first."""
    first, mean = ttft_ms(trace), tpot_ms(trace)
    if trace.error is not None or (ttft is not None and (first is None or first > ttft)):
        return False
    return itl is None or mean is None or mean <= itl


def make_report(
    settings: LoadSettings, model: str, traces: Sequence[Trace], peak_concurrency: int
) -> LoadReport:
    """Sum up the traces of a load; at least one."""
    good = [trace for trace in traces if trace.error is None]
    duration = max(trace.end for trace in traces) - min(trace.due for trace in traces)
    counted = all(trace.output_tokens is not None for trace in good)
    outputs = sum(
        trace.output_tokens if counted and trace.output_tokens is not None else len(trace.arrivals)
        for trace in good
    )
    prompts = sum(trace.prompt_tokens or 0 for trace in good)
    with_slo = settings.slo_ttft_ms is not None or settings.slo_itl_ms is not None
    met = sum(meets_slo(trace, settings.slo_ttft_ms, settings.slo_itl_ms) for trace in traces)
    gaps = [
        1000 * (after - before)
        for trace in good
        for before, after in zip(trace.arrivals, trace.arrivals[1:], strict=False)
    ]
    return LoadReport(
        url=settings.url,
        model=model,
        endpoint=settings.endpoint,
        concurrency=settings.concurrency,
        request_rate=settings.request_rate,
        num_requests=settings.num_requests,
        prompt_len=settings.prompt_len,
        output_len=settings.output_len,
        dataset="random" if settings.dataset is None else str(settings.dataset),
        seed=settings.seed,
        slo_ttft_ms=settings.slo_ttft_ms,
        slo_itl_ms=settings.slo_itl_ms,
        completed=len(good),
        failed=len(traces) - len(good),
        duration_s=duration,
        requests_per_s=len(good) / duration,
        output_tokens_per_s=outputs / duration,
        prompt_tokens_per_s=prompts / duration,
        prompt_tokens=prompts,
        cached_tokens=sum(trace.cached_tokens or 0 for trace in good),
        output_tokens=outputs,
        tokens_counted_by="usage" if counted else "chunks",
        peak_concurrency=peak_concurrency,
        ttft_ms=summarize([value for trace in good if (value := ttft_ms(trace)) is not None]),
        itl_ms=summarize(gaps),
        tpot_ms=summarize([value for trace in good if (value := tpot_ms(trace)) is not None]),
        e2e_ms=summarize([1000 * (trace.end - trace.due) for trace in good]),
        met_slo=met if with_slo else None,
        goodput_per_s=met / duration if with_slo else None,
        first_failed_reply=next((trace.reply for trace in traces if trace.reply), None),
        errors=dict(Counter(trace.error for trace in traces if trace.error is not None).most_common()),
    )
