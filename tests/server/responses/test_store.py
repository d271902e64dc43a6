from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from tenfold.core.errors import InvalidRequestError, TenfoldError
from tenfold.server.responses import store as module
from tenfold.server.responses.store import ResponseStore


def response(name: str, status: str = "completed", **more: object) -> dict:
    return {"id": name, "status": status, "output": [{"says": name}], **more}


def test_what_is_put_can_be_had_from_a_later_store(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "responses.sqlite3"
    first = ResponseStore(file)
    assert first.put(response("a"), None, [{"asks": "a"}])
    first.close()
    second = ResponseStore(file)
    kept = second.get("a")
    assert kept is not None
    assert (kept.previous, kept.input, kept.response) == (None, [{"asks": "a"}], response("a"))
    assert second.delete("a") and not second.delete("a")
    assert second.get("a") is None


def test_history_is_in_order_and_needs_every_link() -> None:
    store = ResponseStore(None)
    store.put(response("a"), None, [{"asks": "a"}])
    store.put(response("b"), "a", [{"asks": "b"}])
    assert store.history("b") == [{"asks": "a"}, {"says": "a"}, {"asks": "b"}, {"says": "b"}]
    store.put(response("c", "in_progress"), "b", [])
    with pytest.raises(InvalidRequestError, match="in_progress"):
        store.history("c")
    store.delete("a")
    with pytest.raises(InvalidRequestError, match="not found"):
        store.history("b")


def test_a_chain_may_not_go_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TURNS", 3)
    store = ResponseStore(None)
    store.put(response("loop"), "loop", [])
    with pytest.raises(InvalidRequestError, match="more than 3"):
        store.history("loop")


def test_only_the_dead_leave_responses_behind(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "responses.sqlite3")
    store.put(response("mine", "in_progress"), None, [])
    assert store.interrupted() == []
    with sqlite3.connect(tmp_path / "responses.sqlite3") as db:
        db.execute("UPDATE responses SET owner = '1:0'")
    db.close()
    assert [kept.response["id"] for kept in store.interrupted()] == ["mine"]


def test_old_ones_go(tmp_path: Path) -> None:
    file = tmp_path / "responses.sqlite3"
    store = ResponseStore(file)
    store.put(response("old"), None, [])
    store.put(response("new"), None, [])
    with sqlite3.connect(file) as db:
        db.execute("UPDATE responses SET created = 0 WHERE id = 'old'")
    db.close()
    store.close()
    again = ResponseStore(file)
    assert again.get("old") is None and again.get("new") is not None


def test_a_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(TenfoldError, match="cannot be used"):
        ResponseStore(tmp_path / "file" / "responses.sqlite3").get("a")
    (tmp_path / "broken").write_bytes(b"no database" * 1000)
    with pytest.raises(TenfoldError, match="cannot be used"):
        ResponseStore(tmp_path / "broken").get("a")


def test_a_full_disk_loses_the_copy_not_the_reply(caplog: pytest.LogCaptureFixture) -> None:
    store = ResponseStore(None)
    store._db.execute("PRAGMA max_page_count = 10")
    assert not store.put(response("a", text="x" * 1_000_000), None, [])
    assert "could not be kept" in caplog.text
    assert store.put(response("b"), None, [])


def test_threads_share_it(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "responses.sqlite3")

    def work(number: int) -> None:
        for turn in range(20):
            assert store.put(response(f"{number}-{turn}"), None, [])
            assert store.get(f"{number}-{turn}") is not None

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(store.get(f"{number}-19") for number in range(4))
