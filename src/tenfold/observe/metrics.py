"""Every metric's name, in one place, and the text Prometheus scrapes.

The names are vLLM's with our prefix, so that its dashboards work after one search-and-replace.
Counters that the engine keeps are read when scraped; latencies are fed by the server, once a token.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenfold.core.stats import EngineStats
from tenfold.observe.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client.core import HistogramMetricFamily, Metric

PREFIX = "tenfold:"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Seconds; from one kernel-bound token of a tiny model up to a long prompt of a large one.
_FIRST_TOKEN_BOUNDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0),
)
_TOKEN_BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_REQUEST_BOUNDS = (
    *(0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_LENGTH_BOUNDS = tuple(float(base * 10**power) for power in range(6) for base in (1, 2, 5))


class RequestTimer:
    """Times one request's outputs and feeds the latency histograms.

    Made by `Metrics.begin`; `output` is called for each batch of new tokens, `finish` once a completion.
    """

    __slots__ = ("_first", "_last", "_metrics", "_started", "_tokens")

    def __init__(self, metrics: Metrics, now: float) -> None:
        self._metrics = metrics
        self._started = now
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._tokens: dict[int, int] = {}

    def output(self, completion: int, tokens: int, now: float) -> None:
        """Note `tokens` new tokens of one completion at time `now`, in time.perf_counter's seconds."""
        if tokens <= 0:
            return
        last = self._last.get(completion)
        if last is None:
            if not self._last:
                self._metrics.time_to_first_token.observe(now - self._started)
            self._first[completion] = now
            if tokens > 1:
                self._metrics.inter_token_latency.observe(0.0, tokens - 1)
            self._tokens[completion] = tokens
        else:
            self._metrics.inter_token_latency.observe((now - last) / tokens, tokens)
            self._tokens[completion] += tokens
        self._last[completion] = now

    def finish(self, completion: int, reason: str, prompt_tokens: int, now: float) -> None:
        """Note that one completion ended."""
        metrics = self._metrics
        tokens = self._tokens.get(completion, 0)
        metrics.finished[reason] += 1
        metrics.e2e_latency.observe(now - self._started)
        metrics.request_prompt_tokens.observe(prompt_tokens)
        metrics.request_generation_tokens.observe(tokens)
        if tokens > 1:
            span = self._last[completion] - self._first[completion]
            metrics.time_per_output_token.observe(span / (tokens - 1))


class Metrics:
    """All metrics of one served model; used from the server's event loop only.

    Args:
        model_name: value of the label model_name.
    """

    def __init__(self, model_name: str) -> None:
        self.model_name = model_name
        self.finished: Counter[str] = Counter()
        self.errors: Counter[int] = Counter()
        self.disconnects = 0
        self.time_to_first_token = Histogram(_FIRST_TOKEN_BOUNDS)
        self.inter_token_latency = Histogram(_TOKEN_BOUNDS)
        self.time_per_output_token = Histogram(_TOKEN_BOUNDS)
        self.e2e_latency = Histogram(_REQUEST_BOUNDS)
        self.request_prompt_tokens = Histogram(_LENGTH_BOUNDS)
        self.request_generation_tokens = Histogram(_LENGTH_BOUNDS)

    def begin(self, now: float | None = None) -> RequestTimer:
        """Start timing a request, at `now` or at once."""
        return RequestTimer(self, time.perf_counter() if now is None else now)

    def disconnected(self) -> None:
        """Note that a client went away before its reply was done."""
        self.disconnects += 1

    def render(self, stats: EngineStats) -> bytes:
        """All metrics in Prometheus's text form."""
        # Imported here: it takes longer to import than the rest of the server, and a scrape can wait.
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Snapshot(self, stats))
        return generate_latest(registry)


class _Snapshot:
    """Collector over one moment's numbers, in the form prometheus_client asks for."""

    def __init__(self, metrics: Metrics, stats: EngineStats) -> None:
        self._metrics = metrics
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        yield from self._gauges()
        yield from self._counters()
        yield from self._histograms()

    def _gauges(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        stats = self._stats
        for name, text, value in (
            ("num_requests_running", "Requests being computed.", stats.num_running),
            ("num_requests_waiting", "Requests waiting to be computed.", stats.num_waiting),
            ("kv_cache_usage_perc", "Share of KV blocks in use; 1 is all.", stats.kv_usage),
        ):
            gauge = GaugeMetricFamily(PREFIX + name, text, labels=["model_name"])
            gauge.add_metric([self._metrics.model_name], value)
            yield gauge

    def _counters(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily

        stats, metrics = self._stats, self._metrics
        model = metrics.model_name
        for name, text, value in (
            ("prompt_tokens", "Prompt tokens taken in.", stats.prompt_tokens),
            ("generation_tokens", "Tokens generated.", stats.generation_tokens),
            (
                "prefix_cache_queries",
                "Prompt tokens looked up in the prefix cache.",
                stats.prefix_queries_tokens,
            ),
            ("prefix_cache_hits", "Prompt tokens found in the prefix cache.", stats.prefix_hit_tokens),
            ("num_preemptions", "Times a sequence lost its KV blocks.", stats.preemptions),
            ("request_disconnects", "Requests whose client went away.", metrics.disconnects),
        ):
            counter = CounterMetricFamily(PREFIX + name, text, labels=["model_name"])
            counter.add_metric([model], value)
            yield counter
        finished = CounterMetricFamily(
            PREFIX + "request_success", "Completions that ended.", labels=["model_name", "finished_reason"]
        )
        for reason, count in sorted({"stop": 0, "length": 0, "abort": 0, **metrics.finished}.items()):
            finished.add_metric([model, reason], count)
        yield finished
        errors = CounterMetricFamily(
            PREFIX + "request_errors", "Requests answered with an error.", labels=["model_name", "status"]
        )
        for status, count in sorted(metrics.errors.items()):
            errors.add_metric([model, str(status)], count)
        yield errors

    def _histograms(self) -> Iterator[HistogramMetricFamily]:
        from prometheus_client.core import HistogramMetricFamily

        metrics = self._metrics
        for name, text, histogram in (
            ("time_to_first_token_seconds", "From arrival to the first token.", metrics.time_to_first_token),
            (
                "inter_token_latency_seconds",
                "Between two tokens of a completion.",
                metrics.inter_token_latency,
            ),
            (
                "request_time_per_output_token_seconds",
                "Mean time per token after the first, once a completion.",
                metrics.time_per_output_token,
            ),
            ("e2e_request_latency_seconds", "From arrival to the last token.", metrics.e2e_latency),
            ("request_prompt_tokens", "Prompt tokens of a completion.", metrics.request_prompt_tokens),
            ("request_generation_tokens", "Tokens of a completion.", metrics.request_generation_tokens),
        ):
            family = HistogramMetricFamily(PREFIX + name, text, labels=["model_name"])
            family.add_metric([metrics.model_name], histogram.cumulative(), histogram.total)
            yield family
