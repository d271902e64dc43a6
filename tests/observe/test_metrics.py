"""Latencies are measured from the right moments; the text is what Prometheus reads."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenfold.observe.metrics import PREFIX, Metrics
from tests.server.fake_engine import FakeEngine


def test_timer_by_a_made_up_clock():
    metrics = Metrics("m")
    timer = metrics.begin(now=100.0)
    timer.output(0, 0, 100.1)  # nothing came out yet
    timer.output(0, 1, 100.5)
    timer.output(1, 2, 100.6)  # another completion of the request is no first token again
    timer.output(0, 2, 100.9)
    timer.finish(0, "stop", 7, 101.0)
    assert metrics.time_to_first_token.count == 1
    assert metrics.time_to_first_token.total == pytest.approx(0.5)
    assert metrics.inter_token_latency.count == 3
    assert metrics.inter_token_latency.total == pytest.approx(0.4)
    assert metrics.time_per_output_token.total == pytest.approx(0.2)
    assert metrics.e2e_latency.total == pytest.approx(1.0)
    assert metrics.request_generation_tokens.total == 3
    assert metrics.request_prompt_tokens.total == 7
    assert metrics.finished == {"stop": 1}


def test_stages_by_the_engines_stamps():
    metrics = Metrics("m")
    timer = metrics.begin(now=10.0)
    assert timer.time_to_first_token is None
    timer.output(0, 1, 11.0)
    timer.output(0, 1, 13.0)
    timer.finish(0, "stop", 7, 13.0, queued_at=10.25, scheduled_at=10.5)
    timer.finish(1, "abort", 7, 13.0, queued_at=10.25)  # never planned
    assert timer.time_to_first_token == pytest.approx(1.0)
    assert metrics.queue_time.count == metrics.inference_time.count == 1
    assert metrics.queue_time.total == pytest.approx(0.25)
    assert metrics.prefill_time.total == pytest.approx(0.5)
    assert metrics.decode_time.total == pytest.approx(2.0)
    assert metrics.inference_time.total == pytest.approx(2.5)


def test_what_requests_ask_for():
    metrics = Metrics("m")
    metrics.admitted(2, None)
    metrics.admitted(1, 100)
    assert (metrics.params_n.count, metrics.params_n.total) == (2, 3)
    assert (metrics.params_max_tokens.count, metrics.params_max_tokens.total) == (1, 100)


def test_every_name_has_the_prefix_and_a_description():
    metrics = Metrics("m")
    metrics.errors[400] += 1
    metrics.key_requests["k"] += 1
    metrics.key_tokens["k"] += 5
    text = metrics.render(FakeEngine().stats()).decode()
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert family.name.startswith(PREFIX)
        assert family.documentation
        assert family.samples
