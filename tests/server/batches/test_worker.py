"""Batches through a whole server, over the fake engine."""

from __future__ import annotations

import time

import pytest

from tenfold.core.errors import EngineError
from tenfold.server.batches import worker
from tests.server.batches.inputs import CHAT, TEXT, create, line, results, wait
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer, wait_until


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(worker, "_RETRY_S", 0.05)


def test_completions_and_what_fails_of_them():
    lines = [line(f"id-{i}", max_tokens=3) for i in range(40)]
    lines[7]["body"]["temperature"] = -1
    lines[9]["body"]["prompt"] = "far too long " * 1000
    with RunningServer(FakeEngine()) as server:
        batch = create(server.client, lines)
        assert (batch["object"], batch["status"], batch["model"]) == ("batch", "validating", "fake")
        done = wait(server.client, batch["id"])
        assert done["status"] == "completed"
        assert done["request_counts"] == {"total": 40, "completed": 38, "failed": 2}
        assert done["created_at"] <= done["in_progress_at"] <= done["finalizing_at"] <= done["completed_at"]
        good, bad = (results(server.client, done[f"{kind}_file_id"]) for kind in ("output", "error"))
        assert [one["custom_id"] for one in good] == [f"id-{i}" for i in range(40) if i not in (7, 9)]
        reply = good[0]["response"]
        assert (reply["status_code"], good[0]["error"]) == (200, None)
        assert reply["body"]["object"] == "text_completion"
        assert reply["body"]["choices"][0]["text"] == "The"
        assert [one["custom_id"] for one in bad] == ["id-7", "id-9"]
        assert {one["response"]["status_code"] for one in bad} == {400}
        assert bad[0]["response"]["body"]["error"]["param"] == "temperature"
        assert bad[1]["response"]["body"]["error"]["code"] == "context_length_exceeded"
    assert {request.priority for request in server.engine.requests} == {worker.PRIORITY}


def test_chats_say_what_they_say_over_http():
    with RunningServer(FakeEngine()) as server:
        request = line("a", CHAT, logprobs=True, n=2)
        done = wait(server.client, create(server.client, [request], CHAT)["id"])
        (one,) = results(server.client, done["output_file_id"])
        direct = server.client.post(CHAT, json=request["body"]).json()
        assert one["response"]["body"]["choices"] == direct["choices"]
        assert done["error_file_id"] is None


def test_wrong_input_fails_the_batch_and_runs_nothing():
    lines = [line("a"), line("a"), line("b", stream=True), line("c", model="other"), line("d", prompt=5.5)]
    with RunningServer(FakeEngine()) as server:
        done = wait(server.client, create(server.client, lines)["id"])
        assert done["status"] == "failed"
        assert [(one["line"], one["param"]) for one in done["errors"]["data"]] == [
            (2, "custom_id"),
            (3, "body.stream"),
            (4, "body.model"),
            (5, "body.prompt"),
        ]
    assert server.engine.requests == []


def test_few_run_at_once():
    engine = FakeEngine(delay=0.002)
    with RunningServer(engine, batch_concurrency=3) as server:
        batch = create(server.client, [line(str(i)) for i in range(12)])
        most = 0
        while server.client.get(f"/v1/batches/{batch['id']}").json()["status"] != "completed":
            most = max(most, len(engine.running))
        assert most == 3


def test_a_full_queue_is_waited_for():
    engine = FakeEngine()
    engine.num_waiting = engine.max_waiting
    with RunningServer(engine) as server:
        batch = create(server.client, [line("a")])
        wait(server.client, batch["id"], until=("in_progress",))
        time.sleep(0.2)
        assert wait(server.client, batch["id"], until=("in_progress",))["request_counts"]["failed"] == 0
        engine.num_waiting = 0
        assert wait(server.client, batch["id"])["request_counts"]["completed"] == 1


def test_what_the_engine_fails_at_is_an_entry():
    with RunningServer(FakeEngine(fail_after=2, error=EngineError("It broke."))) as server:
        done = wait(server.client, create(server.client, [line("a")])["id"])
        (one,) = results(server.client, done["error_file_id"])
        assert one["response"]["status_code"] == 500
        assert one["response"]["body"]["error"]["message"] == "It broke."


def test_cancelling_keeps_what_is_done():
    engine = FakeEngine(delay=0.02)
    with RunningServer(engine, batch_concurrency=2) as server:
        lines = [line("quick", max_tokens=1)] + [line(f"slow-{i}", max_tokens=40) for i in range(5)]
        batch = create(server.client, lines)
        wait_until(
            lambda: server.client.get(f"/v1/batches/{batch['id']}").json()["request_counts"]["completed"] == 1
        )
        answer = server.client.post(f"/v1/batches/{batch['id']}/cancel").json()
        assert answer["status"] == "cancelling"
        done = wait(server.client, batch["id"])
        assert done["status"] == "cancelled"
        good, bad = (results(server.client, done[f"{kind}_file_id"]) for kind in ("output", "error"))
        assert sorted(one["custom_id"] for one in good + bad) == sorted(one["custom_id"] for one in lines)
        assert "quick" in {one["custom_id"] for one in good}
        assert {one["error"]["code"] for one in bad} == {"batch_cancelled"}
        wait_until(lambda: not engine.running)


def test_batches_take_turns_by_age():
    with RunningServer(FakeEngine()) as server:
        first, second = (create(server.client, [line(str(i)) for i in range(5)]) for _ in range(2))
        assert wait(server.client, second["id"])["status"] == "completed"
        assert wait(server.client, first["id"], seconds=0.5)["status"] == "completed"
        page = server.client.get("/v1/batches").json()
        assert [one["id"] for one in page["data"]] == [second["id"], first["id"]]


def test_a_shutdown_does_not_wait_and_the_next_server_goes_on(tmp_path):
    lines = [line(f"id-{i}") for i in range(20)]
    engine = FakeEngine(delay=0.02)
    with RunningServer(engine, data_dir=str(tmp_path), batch_concurrency=2, shutdown_timeout_s=10) as server:
        batch = create(server.client, lines)
        wait_until(
            lambda: server.client.get(f"/v1/batches/{batch['id']}").json()["request_counts"]["completed"] >= 2
        )
        started = time.monotonic()
        server.server.stop()
        server.thread.join(10)
        assert time.monotonic() - started < 3
    again = FakeEngine()
    with RunningServer(again, data_dir=str(tmp_path)) as server:
        done = wait(server.client, batch["id"])
        assert done["request_counts"] == {"total": 20, "completed": 20, "failed": 0}
        good = results(server.client, done["output_file_id"])
        assert [one["custom_id"] for one in good] == [one["custom_id"] for one in lines]
    assert len(again.requests) <= 18


def test_two_batches_are_kept_apart_through_restarts(tmp_path):
    with RunningServer(FakeEngine(delay=0.01), data_dir=str(tmp_path), batch_concurrency=1) as server:
        ids = [create(server.client, [line(f"{name}-{i}") for i in range(4)])["id"] for name in "ab"]
        wait(server.client, ids[1], until=("in_progress",))
    with RunningServer(FakeEngine(), data_dir=str(tmp_path)) as server:
        for name, batch_id in zip("ab", ids, strict=True):
            done = wait(server.client, batch_id)
            entries = results(server.client, done["output_file_id"])
            assert [one["custom_id"] for one in entries] == [f"{name}-{i}" for i in range(4)]


def test_a_server_of_another_model_leaves_a_batch_alone(tmp_path):
    engine = FakeEngine(delay=0.05)
    with RunningServer(engine, data_dir=str(tmp_path)) as server:
        batch = create(server.client, [line("a")])
        wait(server.client, batch["id"], until=("in_progress",))
    with RunningServer(FakeEngine(), data_dir=str(tmp_path), served_model_names=("other",)) as server:
        time.sleep(0.2)
        assert server.client.get(f"/v1/batches/{batch['id']}").json()["status"] == "in_progress"
        assert server.engine.requests == []


def test_a_full_disk_pauses_and_says_so(tmp_path):
    engine = FakeEngine("x" * 2000, delay=0.001, burst=100)
    with RunningServer(engine, data_dir=str(tmp_path)) as server:
        batches = server.server._batches
        batch = create(server.client, [line(f"id-{i}", max_tokens=400, n=2) for i in range(20)])
        wait(server.client, batch["id"], until=("in_progress",))
        database = batches._store._db
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages}")

        def told():
            errors = server.client.get(f"/v1/batches/{batch['id']}").json()["errors"]
            return errors and "full" in errors["data"][0]["message"]

        wait_until(told)
        assert server.client.post(TEXT, json={"prompt": "a"}).status_code == 200
        database.execute("PRAGMA max_page_count = 1000000")
        done = wait(server.client, batch["id"])
        assert (done["status"], done["errors"], done["request_counts"]["completed"]) == (
            "completed",
            None,
            20,
        )


def test_nothing_is_written_without_batches(tmp_path):
    with RunningServer(FakeEngine(), data_dir=str(tmp_path / "data")) as server:
        assert server.client.post(TEXT, json={"prompt": "a"}).status_code == 200
    assert not (tmp_path / "data").exists()


def test_a_second_server_in_the_same_folder_says_so(tmp_path):
    with RunningServer(FakeEngine(), data_dir=str(tmp_path)) as one:
        one.client.get("/v1/files")
        with RunningServer(FakeEngine(), data_dir=str(tmp_path)) as other:
            assert other.client.post(TEXT, json={"prompt": "a"}).status_code == 200
            refused = other.client.get("/v1/batches")
            assert refused.status_code == 503
            assert "--data-dir" in refused.json()["error"]["message"]
