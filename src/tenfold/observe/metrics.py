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
_COUNT_BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 64.0)
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

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from arrival to the request's first token, None before it."""
        return min(self._first.values()) - self._started if self._first else None

    @property
    def span(self) -> tuple[float | None, float | None]:
        """When the first token came and the last so far, of all completions."""
        if not self._first:
            return None, None
        return min(self._first.values()), max(self._last.values())

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

    def finish(
        self,
        completion: int,
        reason: str,
        prompt_tokens: int,
        now: float,
        *,
        queued_at: float | None = None,
        scheduled_at: float | None = None,
    ) -> None:
        """Note that one completion ended, which the engine queued and first planned at these times, if it says so."""
        metrics = self._metrics
        if queued_at is not None and scheduled_at is not None:
            metrics.queue_time.observe(scheduled_at - queued_at)
            metrics.inference_time.observe(now - scheduled_at)
            first = self._first.get(completion)
            if first is not None:
                metrics.prefill_time.observe(first - scheduled_at)
                metrics.decode_time.observe(now - first)
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
        self.key_requests: Counter[str] = Counter()
        self.key_tokens: Counter[str] = Counter()
        self.audit_lines_lost = 0
        self.time_to_first_token = Histogram(_FIRST_TOKEN_BOUNDS)
        self.inter_token_latency = Histogram(_TOKEN_BOUNDS)
        self.time_per_output_token = Histogram(_TOKEN_BOUNDS)
        self.e2e_latency = Histogram(_REQUEST_BOUNDS)
        self.queue_time = Histogram(_REQUEST_BOUNDS)
        self.prefill_time = Histogram(_REQUEST_BOUNDS)
        self.decode_time = Histogram(_REQUEST_BOUNDS)
        self.inference_time = Histogram(_REQUEST_BOUNDS)
        self.params_n = Histogram(_COUNT_BOUNDS)
        self.params_max_tokens = Histogram(_LENGTH_BOUNDS)
        self.request_prompt_tokens = Histogram(_LENGTH_BOUNDS)
        self.request_generation_tokens = Histogram(_LENGTH_BOUNDS)

    def begin(self, now: float | None = None) -> RequestTimer:
        """Start timing a request, at `now` or at once."""
        return RequestTimer(self, time.perf_counter() if now is None else now)

    def admitted(self, n: int, max_tokens: int | None) -> None:
        """Note what a request that goes to the engine asks for."""
        self.params_n.observe(n)
        if max_tokens is not None:
            self.params_max_tokens.observe(max_tokens)

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
        cache = GaugeMetricFamily(
            PREFIX + "cache_config_info",
            "The KV cache's blocks and their tokens, as labels; always 1.",
            labels=["model_name", "num_blocks", "block_size"],
        )
        cache.add_metric([self._metrics.model_name, str(stats.kv_blocks), str(stats.kv_block_size)], 1)
        yield cache

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
            ("engine_steps", "Steps the engine ran.", stats.steps),
            ("audit_lines_lost", "Lines that the audit log could not write.", metrics.audit_lines_lost),
        ):
            counter = CounterMetricFamily(PREFIX + name, text, labels=["model_name"])
            counter.add_metric([model], value)
            yield counter
        success = Counter({"stop": 0, "length": 0, "abort": 0})
        success.update(metrics.finished)
        errors = Counter({str(status): count for status, count in metrics.errors.items()})
        for name, text, label, counts in (
            ("request_success", "Completions that ended.", "finished_reason", success),
            ("request_errors", "Requests answered with an error.", "status", errors),
            ("key_requests", "Requests that came with an API key.", "key", metrics.key_requests),
            ("key_tokens", "Prompt and output tokens of an API key.", "key", metrics.key_tokens),
        ):
            family = CounterMetricFamily(PREFIX + name, text, labels=["model_name", label])
            for of, count in sorted(counts.items()):
                family.add_metric([model, of], count)
            yield family

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
            ("request_queue_time_seconds", "From the engine's queue to the first step.", metrics.queue_time),
            ("request_prefill_time_seconds", "From the first step to the first token.", metrics.prefill_time),
            ("request_decode_time_seconds", "From the first token to the last.", metrics.decode_time),
            (
                "request_inference_time_seconds",
                "From the first step to the last token.",
                metrics.inference_time,
            ),
            ("request_params_n", "n of a request.", metrics.params_n),
            ("request_params_max_tokens", "max_tokens of a request that sets it.", metrics.params_max_tokens),
            ("request_prompt_tokens", "Prompt tokens of a completion.", metrics.request_prompt_tokens),
            ("request_generation_tokens", "Tokens of a completion.", metrics.request_generation_tokens),
        ):
            family = HistogramMetricFamily(PREFIX + name, text, labels=["model_name"])
            family.add_metric([metrics.model_name], histogram.cumulative(), histogram.total)
            yield family
