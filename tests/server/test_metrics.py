"""/metrics: what a request leaves there."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer
from tests.server.test_chat import HELLO, TEXT

CHAT = "/v1/chat/completions"


def scrape(server: RunningServer) -> dict[str, float]:
    response = server.client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            assert sample.labels.pop("model_name") == "fake"
            labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
            samples[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return samples


def test_a_request_leaves_its_traces():
    size = len(TEXT.encode())
    with RunningServer(FakeEngine()) as server:
        for stream in (False, True):
            server.client.post(CHAT, json={"messages": HELLO, "n": 2, "stream": stream})
        server.client.post(CHAT, json={"messages": HELLO, "max_tokens": 1})
        server.client.post(CHAT, json={"messages": []})
        seen = scrape(server)
    prompt = len(server.engine.requests[0].prompt_token_ids)
    assert seen["tenfold:request_success_total{finished_reason=stop}"] == 4
    assert seen["tenfold:request_success_total{finished_reason=length}"] == 1
    assert seen["tenfold:request_errors_total{status=400}"] == 1
    assert seen["tenfold:prompt_tokens_total"] == 3 * prompt
    assert seen["tenfold:prefix_cache_queries_total"] == 3 * prompt
    assert seen["tenfold:prefix_cache_hits_total"] == 2 * (prompt - 1)
    assert seen["tenfold:num_requests_running"] == 0
    assert seen["tenfold:kv_cache_usage_perc"] == 0.25
    assert seen["tenfold:time_to_first_token_seconds_count"] == 3
    assert seen["tenfold:e2e_request_latency_seconds_count"] == 5
    generated = seen["tenfold:generation_tokens_total"]
    assert generated == 2 * (size + size + 3) + 1
    assert seen["tenfold:request_generation_tokens_sum"] == generated
    assert seen["tenfold:inter_token_latency_seconds_count"] == generated - 5
    assert seen["tenfold:request_prompt_tokens_count"] == 5
    for stage in ("queue", "prefill", "decode", "inference"):
        assert seen[f"tenfold:request_{stage}_time_seconds_count"] == 5
    assert seen["tenfold:request_params_n_sum"] == 5
    assert seen["tenfold:request_params_max_tokens_sum"] == 1
