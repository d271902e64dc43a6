from __future__ import annotations

import msgspec
import pytest

from tenfold.lab.load.generator import Trace
from tenfold.lab.load.report import make_report
from tenfold.lab.load.settings import LoadSettings

SETTINGS = LoadSettings(url="http://127.0.0.1:1", concurrency=2, num_requests=3)
TRACES = [
    Trace(due=10.0, end=10.7, arrivals=[10.1, 10.3, 10.6], prompt_tokens=8, cached_tokens=4, output_tokens=6),
    Trace(due=10.5, end=12.0, arrivals=[11.0, 11.5], prompt_tokens=8, cached_tokens=0, output_tokens=2),
    Trace(due=11.0, end=11.1, arrivals=[], error="HTTP 429"),
]


def test_figures_of_a_load() -> None:
    report = make_report(SETTINGS, "m", TRACES, 2)
    assert (report.completed, report.failed, report.errors) == (2, 1, {"HTTP 429": 1})
    assert report.duration_s == pytest.approx(2.0)
    assert report.requests_per_s == pytest.approx(1.0)
    assert report.output_tokens_per_s == pytest.approx(4.0)
    assert (report.prompt_tokens, report.cached_tokens, report.output_tokens) == (16, 4, 8)
    assert report.tokens_counted_by == "usage"
    assert report.ttft_ms is not None and report.ttft_ms.max == pytest.approx(500)
    assert report.itl_ms is not None and report.itl_ms.count == 3
    assert report.itl_ms.p50 == pytest.approx(300)
    assert report.tpot_ms is not None and report.tpot_ms.min == pytest.approx(100)
    assert report.e2e_ms is not None and report.e2e_ms.max == pytest.approx(1500)
    assert report.goodput_per_s is None


@pytest.mark.parametrize(
    ("ttft", "itl", "met"),
    [(None, 1000.0, 2), (200.0, None, 1), (1000.0, 200.0, 1), (50.0, 50.0, 0), (1000.0, 1000.0, 2)],
)
def test_goodput_counts_those_that_meet_both(ttft: float | None, itl: float | None, met: int) -> None:
    settings = msgspec.structs.replace(SETTINGS, slo_ttft_ms=ttft, slo_itl_ms=itl)
    report = make_report(settings, "m", TRACES, 2)
    assert report.met_slo == met
    assert report.goodput_per_s == pytest.approx(met / 2.0)


def test_without_usage_pieces_are_counted() -> None:
    bare = [msgspec.structs.replace(trace, output_tokens=None) for trace in TRACES]
    report = make_report(SETTINGS, "m", bare, 2)
    assert report.tokens_counted_by == "chunks" and report.output_tokens == 5


def test_a_load_that_failed_as_a_whole() -> None:
    report = make_report(SETTINGS, "m", TRACES[2:], 1)
    assert report.completed == 0 and report.ttft_ms is None and report.output_tokens_per_s == 0
