"""Sending spans to an OpenTelemetry collector: OTLP over HTTP, as JSON, by a thread of its own.

The protocol is a POST of one object (https://opentelemetry.io/docs/specs/otlp/), so the standard library does.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tenfold import __version__
from tenfold.observe.losses import Losses

_log = logging.getLogger("tenfold.traces")
# A collector that does not answer may cost so many spans of memory; what comes on top is lost, and counted.
_MAX_WAITING = 8192
_MAX_BATCH = 512
_GATHER_S = 1.0
_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 2.0
SERVER, INTERNAL = 2, 1
_ERROR = 2


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span that has ended.

    Args:
        trace_id: 32 hexadecimal digits.
        span_id: 16 hexadecimal digits.
        parent_id: of the span around it, empty when there is none.
        trace_state: W3C tracestate that came with the request.
        name: what it is.
        kind: SERVER or INTERNAL.
        start: seconds since 1970, as end.
        attributes: texts, numbers, truths and lists of texts.
        error: why it failed, empty if it did not.
    """

    trace_id: str
    span_id: str
    parent_id: str = ""
    trace_state: str = ""
    name: str
    kind: int = INTERNAL
    start: float
    end: float
    attributes: Mapping[str, Any] = {}
    error: str = ""


class SpanExporter:
    """Sends spans in batches; never waits and never fails where they are made.

    Args:
        endpoint: URL of the collector; without a path, /v1/traces is asked.
        environment: OTEL_SERVICE_NAME and OTEL_EXPORTER_OTLP_HEADERS are read; the process's when left out.
    """

    def __init__(self, endpoint: str, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._url = (
            endpoint
            if "/" in endpoint.split("://", 1)[-1].rstrip("/")
            else endpoint.rstrip("/") + "/v1/traces"
        )
        self._service = environment.get("OTEL_SERVICE_NAME") or "tenfold"
        self._headers = {
            "Content-Type": "application/json",
            **_pairs(environment.get("OTEL_EXPORTER_OTLP_HEADERS", "")),
        }
        self.losses = Losses(_log, f"The collector {self._url} misses spans")
        self._waiting: queue.Queue[Span | None] = queue.Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._run, name="tenfold-traces", daemon=True)
        self._thread.start()

    def export(self, spans: Iterable[Span]) -> None:
        """Send spans, soon."""
        for span in spans:
            try:
                self._waiting.put_nowait(span)
            except queue.Full:
                self.losses.add(1, "it is too slow")

    def close(self) -> None:
        """Send what waits, for two seconds at most."""
        try:
            self._waiting.put(None, timeout=_CLOSE_TIMEOUT_S)
        except queue.Full:
            return
        self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        ended = False
        while not ended:
            batch: list[Span] = []
            item = self._waiting.get()
            try:
                while item is not None:
                    batch.append(item)
                    if len(batch) == _MAX_BATCH:
                        break
                    item = self._waiting.get(timeout=_GATHER_S)
                ended = item is None
            except queue.Empty:
                pass
            if batch:
                self._send(batch)

    def _send(self, batch: list[Span]) -> None:
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        request = Request(self._url, data=msgspec.json.encode(self._body(batch)), headers=self._headers)
        try:
            with urlopen(request, timeout=_TIMEOUT_S) as reply:
                reply.read()
        except HTTPError as problem:
            problem.close()
            self.losses.add(len(batch), f"it answers {problem.code}")
        except (OSError, ValueError) as problem:
            self.losses.add(len(batch), str(problem) or type(problem).__name__)

    def _body(self, batch: list[Span]) -> dict[str, Any]:
        resource = {"service.name": self._service, "service.version": __version__}
        scope = {"scope": {"name": "tenfold", "version": __version__}, "spans": list(map(_span, batch))}
        return {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope]}]}


def _span(span: Span) -> dict[str, Any]:
    body: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(int(span.start * 1e9)),
        "endTimeUnixNano": str(int(span.end * 1e9)),
        "attributes": _attributes(span.attributes),
    }
    if span.parent_id:
        body["parentSpanId"] = span.parent_id
    if span.trace_state:
        body["traceState"] = span.trace_state
    if span.error:
        body["status"] = {"code": _ERROR, "message": span.error}
    return body


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}


def _pairs(text: str) -> dict[str, str]:
    """Headers as OpenTelemetry's variable has them: "name=value,other=value", percent-encoded."""
    from urllib.parse import unquote

    found = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip(): unquote(value.strip()) for name, _, value in found}
