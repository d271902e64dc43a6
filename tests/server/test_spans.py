"""Traces: a span a request with its stages inside, also when it fails or is cancelled, continued from the caller's."""

from __future__ import annotations

import pytest

from tenfold.core.errors import EngineError
from tests.observe.collector import Collector
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer, wait_until
from tests.server.test_chat import HELLO

CHAT = "/v1/chat/completions"
BODY = {"messages": HELLO}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_and_its_stages(stream):
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1", "x-request-id": "mine"}
    with Collector() as collector:
        with RunningServer(FakeEngine(), otlp_traces_endpoint=collector.url) as server:
            body = {**BODY, "max_tokens": 3, "stream": stream, "temperature": 0.5, "seed": 7}
            assert server.client.post(CHAT, json=body, headers=headers).status_code == 200
            server.client.get("/health")
        request, *stages = collector.spans()
    prompt = len(server.engine.requests[0].prompt_token_ids)
    assert (request["traceId"], request["parentSpanId"], request["traceState"]) == (TRACE, PARENT, "vendor=1")
    assert (request["name"], request["kind"]) == ("chat fake", 2)
    assert "status" not in request
    found = request["attributes"]
    assert found.pop("gen_ai.response.id").startswith("chatcmpl-")
    assert found.pop("tenfold.time_to_first_token") > 0
    assert found.pop("gen_ai.request.top_p") <= 1
    assert found == {
        "http.request.method": "POST",
        "url.path": CHAT,
        "http.response.status_code": 200,
        "client.address": "127.0.0.1",
        "tenfold.request.id": "mine",
        "gen_ai.provider.name": "tenfold",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "fake",
        "gen_ai.response.model": "fake",
        "gen_ai.response.finish_reasons": ["length"],
        "gen_ai.usage.input_tokens": prompt,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.request.max_tokens": 3,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.seed": 7,
    }
    assert [stage["name"] for stage in stages] == ["queue", "prefill", "decode"]
    times = [int(request["startTimeUnixNano"])]
    for stage in stages:
        assert (stage["traceId"], stage["parentSpanId"]) == (TRACE, request["spanId"])
        times += [int(stage["startTimeUnixNano"]), int(stage["endTimeUnixNano"])]
    times.append(int(request["endTimeUnixNano"]))
    assert times == sorted(times)
    assert len({span["spanId"] for span in (request, *stages)}) == 4


def test_failed_and_cancelled_requests_have_spans():
    with Collector() as collector:
        engine = FakeEngine("long " * 100, delay=0.01, fail_after=30, error=EngineError("It failed."))
        with RunningServer(engine, otlp_traces_endpoint=collector.url) as server:
            server.client.post(CHAT, json={**BODY, "stream": True})
            wait_until(lambda: server.server._service.in_flight == 0)
            server.client.post(CHAT, json=BODY)
            server.client.post(CHAT, json={"messages": 3})
            with server.client.stream("POST", CHAT, json={**BODY, "stream": True}) as response:
                next(response.iter_lines())
            wait_until(lambda: server.server._service.in_flight == 0)
        found = [span for span in collector.spans() if span["kind"] == 2]
    streamed, whole, invalid, cancelled = found
    for span, status in ((streamed, 200), (whole, 500)):
        assert span["attributes"]["error.type"] == "engine_error"
        assert span["attributes"]["http.response.status_code"] == status
        assert span["status"] == {"code": 2, "message": "engine_error"}
    assert invalid["attributes"]["http.response.status_code"] == 400
    assert "status" not in invalid  # the client's fault
    assert cancelled["attributes"]["error.type"] == "cancelled"
    assert cancelled["status"]["message"] == "cancelled"
    assert len({span["traceId"] for span in found}) == 4


@pytest.mark.parametrize(
    ("header", "continued"),
    [
        (f"01-{TRACE}-{PARENT}-01-more", True),
        (f"00-{TRACE}-{PARENT}-01-more", False),
        (f"ff-{TRACE}-{PARENT}-01", False),
        (f"00-{'0' * 32}-{PARENT}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{PARENT}-01", False),
        ("nonsense", False),
    ],
)
def test_only_a_valid_traceparent_is_continued(header, continued):
    with Collector() as collector:
        with RunningServer(FakeEngine(), otlp_traces_endpoint=collector.url) as server:
            server.client.post(CHAT, json={**BODY, "max_tokens": 1}, headers={"traceparent": header})
        request = collector.spans()[0]
    assert (request["traceId"] == TRACE) == continued
    assert ("parentSpanId" in request) == continued


def test_a_trace_that_is_not_sampled_is_not_sent():
    with Collector() as collector:
        with RunningServer(FakeEngine(), otlp_traces_endpoint=collector.url) as server:
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
            assert server.client.post(CHAT, json=BODY, headers=headers).status_code == 200
        assert collector.posts == []


def test_a_collector_that_is_gone_harms_no_request():
    with RunningServer(FakeEngine(), otlp_traces_endpoint="http://127.0.0.1:9") as server:
        assert server.client.post(CHAT, json=BODY).status_code == 200
