"""The key file at the door: scopes, limits over HTTP, headers, reloading."""

from __future__ import annotations

import hashlib
import threading

import pytest

from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer, wait_until
from tests.server.test_bad_input import error_of
from tests.server.test_chat import HELLO

CHAT = "/v1/chat/completions"
BODY = {"messages": HELLO}
HASH = hashlib.sha256(b"hashed").hexdigest()
FILE = f"""
[[keys]]
name = "user"
sha256 = "{HASH}"
[[keys]]
name = "scraper"
key = "scraped"
scopes = ["metrics"]
[[keys]]
name = "root"
key = "rooted"
scopes = ["admin"]
"""


@pytest.fixture
def keys_file(tmp_path):
    path = tmp_path / "keys.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    return path


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def test_scopes(keys_file):
    with RunningServer(FakeEngine(), api_keys_file=str(keys_file), api_keys=("plain",)) as server:
        client = server.client

        def statuses(key):
            return [
                client.post(CHAT, json=BODY, headers=bearer(key)).status_code,
                client.get("/v1/models", headers=bearer(key)).status_code,
                client.get("/metrics", headers=bearer(key)).status_code,
                client.get("/version", headers=bearer(key)).status_code,
                client.post("/admin/reload", headers=bearer(key)).status_code,
            ]

        assert statuses("hashed") == [200, 200, 403, 200, 403]
        assert statuses("scraped") == [403, 403, 200, 200, 403]
        assert statuses("rooted") == [200, 200, 200, 200, 200]
        assert statuses("plain") == [200, 200, 200, 200, 403]
        assert statuses(HASH) == [401] * 5
        refused = client.get("/metrics", headers=bearer("hashed"))
        assert error_of(refused)["code"] == "insufficient_scope"
        assert "metrics or admin" in error_of(refused)["message"]


def test_an_open_server_has_no_administrators(shared):
    refused = shared.client.post("/admin/reload")
    assert refused.status_code == 403
    assert "--api-keys-file" in error_of(refused)["message"]


def test_limits_over_http(keys_file):
    keys_file.write_text(
        FILE + '[[keys]]\nname = "small"\nkey = "small"\nrequests_per_minute = 3\ntokens_per_minute = 1000\n'
    )
    with RunningServer(FakeEngine(), api_keys_file=str(keys_file)) as server:
        client, key = server.client, bearer("small")
        whole = client.post(CHAT, json={**BODY, "max_tokens": 5}, headers=key)
        assert whole.status_code == 200
        prompt = whole.json()["usage"]["prompt_tokens"]
        assert whole.headers["x-ratelimit-limit-requests"] == "3"
        assert whole.headers["x-ratelimit-remaining-requests"] == "2"
        assert whole.headers["x-ratelimit-limit-tokens"] == "1000"
        left = int(whole.headers["x-ratelimit-remaining-tokens"])
        assert 1000 - prompt - 5 <= left <= 1000 - prompt  # a few may have flowed in
        streamed = client.post(CHAT, json={**BODY, "max_tokens": 5, "stream": True}, headers=key)
        assert streamed.headers["x-ratelimit-remaining-requests"] == "1"
        # Too long ever: refused, and the request given back.
        long = client.post(CHAT, json={**BODY, "n": 3, "max_tokens": 400}, headers=key)
        assert long.status_code == 429
        assert error_of(long)["code"] == "rate_limit_exceeded"
        assert error_of(long)["type"] == "rate_limit_error"
        assert client.post(CHAT, json={**BODY, "max_tokens": 5}, headers=key).status_code == 200
        refused = client.post(CHAT, json=BODY, headers=key)
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert refused.headers["x-ratelimit-remaining-requests"] == "0"
        assert refused.headers["x-ratelimit-reset-requests"].endswith("s")
        # Looking costs nothing, others are not concerned, and the replies to unlimited keys say nothing.
        assert client.get("/v1/models", headers=key).status_code == 200
        other = client.post(CHAT, json=BODY, headers=bearer("hashed"))
        assert other.status_code == 200
        assert "x-ratelimit-limit-requests" not in other.headers
        text = client.get("/metrics", headers=bearer("scraped")).text
        assert 'tenfold:key_requests_total{key="small",model_name="fake"} 4.0' in text


def test_unused_and_unforeseen_tokens_are_settled(keys_file):
    keys_file.write_text('[[keys]]\nname = "small"\nkey = "small"\ntokens_per_minute = 600\n')
    with RunningServer(FakeEngine("ab"), api_keys_file=str(keys_file)) as server:
        client, key = server.client, bearer("small")
        (limits,) = server.server._service.keys._by_name.values()
        before = limits._tokens.level
        usage = client.post(CHAT, json={**BODY, "max_tokens": 400}, headers=key).json()["usage"]
        assert usage["total_tokens"] < 100
        wait_until(lambda: limits._running == 0)
        assert limits._tokens.level == pytest.approx(before - usage["total_tokens"], abs=30)
        usage = client.post(CHAT, json=BODY, headers=key).json()["usage"]
        wait_until(lambda: limits._running == 0)
        assert limits._tokens.level < before - usage["total_tokens"] + 60


def test_overload_of_the_server_is_not_the_keys(keys_file):
    keys_file.write_text(
        '[[keys]]\nname = "small"\nkey = "small"\nrequests_per_minute = 1\ntokens_per_minute = 500\n'
    )
    with RunningServer(FakeEngine(max_running=0), api_keys_file=str(keys_file)) as server:
        for _ in range(3):
            refused = server.client.post(CHAT, json={**BODY, "max_tokens": 300}, headers=bearer("small"))
            assert error_of(refused)["code"] == "overloaded"


def test_requests_at_once_are_bounded(keys_file):
    keys_file.write_text('[[keys]]\nname = "one"\nkey = "one"\nmax_concurrent_requests = 1\n')
    with RunningServer(FakeEngine(delay=0.01), api_keys_file=str(keys_file)) as server:
        key = bearer("one")
        with server.client.stream("POST", CHAT, json={**BODY, "stream": True}, headers=key) as running:
            lines = running.iter_lines()
            next(lines)
            refused = server.client.post(CHAT, json=BODY, headers=key)
            assert error_of(refused)["code"] == "rate_limit_exceeded"
            assert list(lines)[-2:] == ["data: [DONE]", ""]
        (limits,) = server.server._service.keys._by_name.values()
        wait_until(lambda: limits._running == 0)
        assert server.client.post(CHAT, json=BODY, headers=key).status_code == 200


def test_reloading_harms_nothing(keys_file):
    with RunningServer(FakeEngine(delay=0.01), api_keys_file=str(keys_file)) as server:
        client, replies = server.client, []
        running = threading.Thread(
            target=lambda: replies.append(client.post(CHAT, json=BODY, headers=bearer("hashed")))
        )
        running.start()
        wait_until(lambda: server.engine.running)
        keys_file.write_text('[[keys]]\nname = "root"\nkey = "new"\nscopes = ["admin"]\n')
        assert client.post("/admin/reload", headers=bearer("rooted")).json() == {"status": "ok"}
        assert client.get("/v1/models", headers=bearer("rooted")).status_code == 401
        assert client.get("/v1/models", headers=bearer("new")).status_code == 200
        keys_file.write_text("[[keys]]\n")
        failed = client.post("/admin/reload", headers=bearer("new"))
        assert failed.status_code == 500
        assert error_of(failed)["code"] == "reload_failed"
        assert "stays" in error_of(failed)["message"]
        assert client.get("/v1/models", headers=bearer("new")).status_code == 200
        running.join()
        assert replies[0].status_code == 200
