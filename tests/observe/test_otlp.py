"""Spans to a collector: OTLP's shape, batches, and collectors that are slow, wrong or gone."""

from __future__ import annotations

import socket
import threading

import pytest

from tenfold.observe import otlp
from tenfold.observe.otlp import SERVER, Span, SpanExporter
from tests.observe.collector import Collector, plain


def span(**given):
    return Span(
        **{"trace_id": "1" * 32, "span_id": "2" * 16, "name": "n", "start": 10.0, "end": 11.5, **given}
    )


def test_the_shape_is_otlps():
    environment = {"OTEL_SERVICE_NAME": "mine", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b, other=c"}
    attributes = {"text": "t", "whole": 3, "part": 0.5, "truth": True, "list": ["a", "b"], "absent": None}
    with Collector() as collector:
        exporter = SpanExporter(collector.url, environment)
        exporter.export(
            [span(kind=SERVER, parent_id="3" * 16, trace_state="a=b", attributes=attributes, error="e")]
        )
        exporter.export([span(span_id="4" * 16)])
        exporter.close()
    ((path, headers, body),) = collector.posts  # one batch
    assert path == "/v1/traces"
    assert (headers["content-type"], headers["api-key"], headers["other"]) == ("application/json", "a b", "c")
    (resource,) = body["resourceSpans"]
    assert plain(resource["resource"]["attributes"])["service.name"] == "mine"
    first, second = collector.spans()
    del attributes["absent"]
    assert first == {
        "traceId": "1" * 32,
        "spanId": "2" * 16,
        "parentSpanId": "3" * 16,
        "traceState": "a=b",
        "name": "n",
        "kind": 2,
        "startTimeUnixNano": "10000000000",
        "endTimeUnixNano": "11500000000",
        "attributes": attributes,
        "status": {"code": 2, "message": "e"},
    }
    assert second["kind"] == 1
    assert not {"parentSpanId", "traceState", "status"} & set(second)


def test_a_path_is_kept():
    with Collector() as collector:
        exporter = SpanExporter(collector.url + "/other/path", {})
        exporter.export([span()])
        exporter.close()
        again = SpanExporter(collector.url + "/", {})
        again.export([span()])
        again.close()
    assert [path for path, _, _ in collector.posts] == ["/other/path", "/v1/traces"]


def test_batches_are_bounded(monkeypatch):
    monkeypatch.setattr(otlp, "_MAX_BATCH", 2)
    with Collector() as collector:
        exporter = SpanExporter(collector.url, {})
        exporter.export([span() for _ in range(5)])
        exporter.close()
        assert len(collector.posts) == 3
        assert len(collector.spans()) == 5
    assert exporter.losses.count == 0


@pytest.mark.parametrize("status", [404, 503])
def test_a_collector_that_refuses(status, caplog):
    with Collector(status) as collector:
        exporter = SpanExporter(collector.url, {})
        exporter.export([span(), span()])
        exporter.close()
    assert exporter.losses.count == 2
    assert f"it answers {status}" in caplog.text


def test_a_collector_that_is_gone(caplog):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        exporter = SpanExporter(f"http://127.0.0.1:{holder.getsockname()[1]}", {})
        exporter.export([span()])
        exporter.close()
    assert exporter.losses.count == 1
    assert "misses spans" in caplog.text


def test_a_collector_that_stands_still_holds_nobody_up(monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(otlp, "_MAX_WAITING", 3)
    monkeypatch.setattr(SpanExporter, "_send", lambda self, batch: gate.wait(10))
    monkeypatch.setattr(otlp, "_MAX_BATCH", 1)
    exporter = SpanExporter("http://127.0.0.1:1", {})
    exporter.export([span() for _ in range(10)])
    assert exporter.losses.count >= 6
    gate.set()
    exporter.close()
