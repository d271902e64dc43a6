"""Request ids on every reply, one line a request, and never a word of its contents."""

from __future__ import annotations

import json
import logging

import pytest

from tenfold.core.errors import EngineError
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer, wait_until
from tests.server.test_chat import HELLO, TEXT

CHAT = "/v1/chat/completions"
BODY = {"messages": HELLO}


@pytest.fixture
def lines(caplog):
    """Fields of the access log's lines so far, without /health: a line may come late, in the next test."""
    caplog.set_level(logging.INFO, logger="tenfold.access")
    return lambda: [
        record.fields
        for record in caplog.records
        if record.name == "tenfold.access" and record.fields["path"] != "/health"
    ]


def test_ids_are_the_clients_if_sane_and_on_every_reply(shared):
    for method, path in (
        ("GET", "/health"),
        ("GET", "/nowhere"),
        ("DELETE", CHAT),
        ("POST", CHAT),
        ("GET", "/"),
    ):
        mine = shared.client.request(method, path, headers={"x-request-id": "mine-1:2/a"})
        assert mine.headers.get_list("x-request-id") == ["mine-1:2/a"]
        made = [shared.client.request(method, path).headers["x-request-id"] for _ in range(2)]
        assert made[0] != made[1]
        assert all(each.startswith("req_") for each in made)
    streamed = shared.client.post(CHAT, json={**BODY, "stream": True}, headers={"x-request-id": "s"})
    assert streamed.headers["x-request-id"] == "s"
    for wrong in ("", "a b", "x" * 129, 'quote"', "ü".encode(), "a\tb"):
        assert shared.client.get("/health", headers={"x-request-id": wrong}).headers["x-request-id"] != wrong


def test_one_line_a_request(lines):
    with RunningServer(FakeEngine(), api_keys=("k",)) as server:
        key = {"Authorization": "Bearer k", "x-request-id": "r1"}
        for number, stream in enumerate((False, True), 1):
            server.client.post(CHAT, json={**BODY, "n": 2, "max_tokens": 3, "stream": stream}, headers=key)
            wait_until(lambda number=number: len(lines()) == number)  # written after the reply's end
        server.client.get("/v1/models?secret=1")
        wait_until(lambda: len(lines()) == 3)
    prompt = len(server.engine.requests[0].prompt_token_ids)
    for cached, line in zip((0, prompt - 1), lines(), strict=False):
        assert 0 < line.pop("ttft_s") <= line.pop("duration_s")
        assert line == {
            "request_id": "r1",
            "client": "127.0.0.1",
            "key": "api_key:1",
            "method": "POST",
            "path": CHAT,
            "status": 200,
            "prompt_tokens": prompt,
            "cached_tokens": cached,
            "completion_tokens": 6,
            "finish_reasons": ["length", "length"],
        }
    refused = lines()[2]
    assert (refused["status"], refused["error"], refused["path"]) == (401, "invalid_api_key", "/v1/models")
    assert "prompt_tokens" not in refused


def test_errors_and_clients_that_go_away(lines):
    with RunningServer(FakeEngine(fail_after=3, error=EngineError("It failed."))) as server:
        server.client.post(CHAT, json={**BODY, "stream": True})
        wait_until(lambda: len(lines()) == 1)
        server.client.post(CHAT, json={"messages": 3})
        wait_until(lambda: len(lines()) == 2)
        broken, invalid = lines()
    assert (broken["status"], broken["error"], broken["finish_reasons"]) == (
        200,
        "engine_error",
        ["unfinished"],
    )
    assert (invalid["status"], "error" in invalid) == (400, True)
    with RunningServer(FakeEngine("long " * 200, delay=0.01)) as server:
        with server.client.stream("POST", CHAT, json={**BODY, "stream": True}) as response:
            next(response.iter_lines())
        wait_until(lambda: len(lines()) == 3)
    assert lines()[2]["finish_reasons"] == ["unfinished"]


def test_no_contents_and_no_forged_lines(caplog):
    caplog.set_level(logging.DEBUG, logger="tenfold")
    body = {"messages": [{"role": "user", "content": "sesame open"}]}
    with RunningServer(FakeEngine()) as server:
        server.client.post(CHAT + "%0aPOST%20/forged", json=body)
        wait_until(lambda: any(record.name == "tenfold.access" for record in caplog.records))
        server.client.post(CHAT, json=body)
        server.client.post(CHAT, json={**body, "temperature": "sesame"})
        wait_until(lambda: sum(record.name == "tenfold.access" for record in caplog.records) == 3)
    said = [record.getMessage() for record in caplog.records if record.name == "tenfold.access"]
    assert len(said) == 3
    assert not [line for line in said if "\n" in line or "sesame" in line or TEXT[:10] in line]
    assert said[0].lower() == f"POST {CHAT}%0aPOST%20/forged 404".lower()


def test_the_audit_log_gets_the_same(tmp_path):
    path = tmp_path / "audit.jsonl"
    with RunningServer(FakeEngine(), audit_log=str(path), access_log=False) as server:
        server.client.post(CHAT, json=BODY, headers={"x-request-id": "one"})
        wait_until(lambda: path.read_text().count("\n") == 1)
        path.rename(tmp_path / "old")
        assert server.server._service.reload() == []
        server.client.get("/health", headers={"x-request-id": "two"})
    (first,), (second,) = (
        [json.loads(line) for line in file.read_text().splitlines()] for file in (tmp_path / "old", path)
    )
    assert (first["request_id"], first["finish_reasons"], first["key"]) == ("one", ["stop"], None)
    assert first["time"].endswith("Z")
    assert (second["request_id"], second["path"]) == ("two", "/health")


def test_a_full_disk_harms_no_request():
    with RunningServer(FakeEngine(), audit_log="/dev/full") as server:
        for _ in range(3):
            assert server.client.post(CHAT, json=BODY).status_code == 200
        wait_until(lambda: server.server._service.audit_log.lost == 3)
        assert 'audit_lines_lost_total{model_name="fake"} 3.0' in server.client.get("/metrics").text


def test_pages_of_other_origins_may_read_ids_and_limits():
    with RunningServer(FakeEngine(), cors_origins=("http://a.example",)) as server:
        reply = server.client.get("/health", headers={"Origin": "http://a.example"})
        exposed = reply.headers["access-control-expose-headers"]
        assert "x-request-id" in exposed
        assert "x-ratelimit-remaining-tokens" in exposed
        assert reply.headers["x-request-id"]
