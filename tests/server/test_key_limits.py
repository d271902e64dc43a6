"""One key's limits: what is refused takes nothing, what is not used comes back."""

from __future__ import annotations

import pytest

from tenfold.config.key_file import KeyEntry
from tenfold.server.errors import ApiError
from tenfold.server.key_limits import KeyLimits, duration
from tenfold.server.record import RequestRecord
from tests.server.test_token_bucket import Clock


def limits(clock=None, **given):
    return KeyLimits(KeyEntry(name="k", digest=b"", **given), clock or Clock())


def headers(key):
    return {name.decode(): value.decode() for name, value in key.headers()}


def refused(call, *args):
    with pytest.raises(ApiError) as caught:
        call(*args)
    assert (caught.value.status, caught.value.code) == (429, "rate_limit_exceeded")
    return caught.value


def test_no_limits_say_nothing():
    key = limits()
    for _ in range(1000):
        key.begin()
    key.reserve(10**9)
    key.settle(reserved=0, used=5)
    assert key.headers() == []


def test_requests_a_minute():
    clock = Clock()
    key = limits(clock, requests_per_minute=2)
    key.begin()
    key.begin()
    assert refused(key.begin).headers["Retry-After"] == "30"
    assert headers(key) == {
        "x-ratelimit-limit-requests": "2",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1m0s",
    }
    clock.now += 30
    key.begin()
    key.end(refund=True)  # the server could not: the next one may come
    key.begin()
    refused(key.begin)


def test_requests_at_once():
    key = limits(max_concurrent_requests=1, requests_per_minute=2)
    key.begin()
    assert refused(key.begin).headers["Retry-After"] == "1"
    key.end(refund=False)
    key.begin()  # the refused one took nothing of the minute


def test_tokens_are_reserved_and_settled():
    clock = Clock()
    key = limits(clock, tokens_per_minute=600)
    key.reserve(500)
    assert headers(key)["x-ratelimit-remaining-tokens"] == "100"
    assert refused(key.reserve, 200).headers["Retry-After"] == "10"
    key.settle(reserved=500, used=50)
    assert headers(key)["x-ratelimit-remaining-tokens"] == "550"
    key.settle(reserved=0, used=600)  # counted afterwards: 50 are owed
    assert headers(key)["x-ratelimit-remaining-tokens"] == "0"
    assert refused(key.begin).headers["Retry-After"] == "6"
    clock.now += 6
    key.begin()


def test_what_can_never_fit_is_not_told_to_wait():
    key = limits(tokens_per_minute=600)
    error = refused(key.reserve, 601)
    assert "Retry-After" not in error.headers
    assert "lower max_tokens" in str(error)
    assert headers(key)["x-ratelimit-remaining-tokens"] == "600"


def test_what_outlives_its_request_is_charged_when_it_ends():
    record = RequestRecord({"method": "POST", "path": "/", "headers": []})
    record.limits = limits(tokens_per_minute=600)
    record.reserve(100, 200)
    assert record.settle(refused=False) == 100  # the prompt; nothing came out yet
    assert headers(record.limits)["x-ratelimit-remaining-tokens"] == "500"
    record.completed(150)
    assert headers(record.limits)["x-ratelimit-remaining-tokens"] == "350"


def test_new_limits_keep_what_was_used():
    key = limits(requests_per_minute=5)
    key.begin()
    key.change(KeyEntry(name="k", digest=b"", requests_per_minute=10, tokens_per_minute=7))
    assert headers(key)["x-ratelimit-remaining-requests"] == "9"
    assert headers(key)["x-ratelimit-limit-tokens"] == "7"
    key.change(KeyEntry(name="k", digest=b""))
    assert key.headers() == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.02, "20ms"), (0.0001, "1ms"), (1, "1s"), (1.5, "1.5s"), (360, "6m0s"), (3661, "1h1m1s")],
)
def test_durations_are_written_as_openai_does(seconds, text):
    assert duration(seconds) == text
