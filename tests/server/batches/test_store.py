from __future__ import annotations

import io

import pytest

from tenfold.server.batches.objects import Answer, Batch, PendingLine
from tenfold.server.batches.storage_errors import FolderInUseError, StorageError
from tenfold.server.batches.store import Store, is_begun
from tenfold.server.errors import ApiError


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "data")
    yield store
    store.close()


def add_file(store, data=b"first\nsecond\n"):
    return store.add_file(io.BytesIO(data), "in.jsonl", "batch", limit=1000)


def add_batch(store, number=0, *, begun=2, model="m"):
    batch = Batch(
        id=f"batch_{number}",
        endpoint="/v1/completions",
        model=model,
        input_file_id=add_file(store).id,
        completion_window="24h",
        created_at=number,
    )
    store.add_batch(batch, limit=100)
    if begun:
        store.begin(batch.id, [PendingLine(1, 0, 6, "a"), PendingLine(2, 6, 7, "b")])
    return batch.id


def answer(number, *, failed=False, result=None):
    return Answer(number, failed, result or b'{"line": %d}' % number)


def test_a_file_comes_back_and_goes(store):
    file = add_file(store, b"x" * 3_000_000)
    assert (file.bytes, file.filename, file.purpose) == (3_000_000, "in.jsonl", "batch")
    assert store.path(file.id).read_bytes() == b"x" * 3_000_000
    assert store.file(file.id) == file
    store.delete_file(file.id)
    assert not store.path(file.id).exists()
    for use in (store.file, store.delete_file):
        with pytest.raises(ApiError) as missing:
            use(file.id)
        assert missing.value.status == 404


def test_files_are_bounded_in_number(store):
    add_file(store)
    with pytest.raises(ApiError, match="1 files are stored"):
        store.add_file(io.BytesIO(b""), "more", "batch", limit=1)


@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_meet_end_to_end(store, newest_first):
    ids = [add_file(store).id for _ in range(7)]
    seen, after = [], None
    while True:
        page = store.files(after, 3, newest_first, None)
        seen += [file.id for file in page.data]
        assert (page.first_id, page.last_id) == (page.data[0].id, page.data[-1].id)
        if not page.has_more:
            break
        after = page.last_id
    assert seen == (ids[::-1] if newest_first else ids)
    assert store.files(None, 10, True, "batch_output").data == []


def test_a_request_is_answered_once(store):
    batch_id = add_batch(store)
    assert [line.custom_id for line in store.pending(batch_id, 0, 10)] == ["a", "b"]
    store.record(batch_id, [answer(2, result=b'"first"')])
    store.record(batch_id, [answer(2, result=b'"again"', failed=True), answer(1, failed=True)])
    assert store.pending(batch_id, 0, 10) == []
    counts = store.batch(batch_id).request_counts
    assert (counts.total, counts.completed, counts.failed) == (2, 1, 1)
    store.finalize(batch_id)
    done = store.batch(batch_id)
    assert done.status == "completed"
    assert store.path(done.output_file_id).read_bytes() == b'"first"\n'
    assert store.path(done.error_file_id).read_bytes() == b'{"line": 1}\n'


def test_it_reads_lines_of_the_input(store):
    batch_id = add_batch(store)
    file_id = store.batch(batch_id).input_file_id
    assert [store.read_line(file_id, line) for line in store.pending(batch_id, 0, 10)] == [
        b"first\n",
        b"second\n",
    ]


def test_everything_is_there_after_reopening(store):
    batch_id = add_batch(store)
    store.record(batch_id, [answer(1)])
    before = store.batch(batch_id)
    # What a crash amid an upload and amid the writing of results leaves.
    (store.folder / "files" / "file-lost").write_bytes(b"")
    (store.folder / "files" / "file-half.part").write_bytes(b"")
    store.close()
    store.__init__(store.folder)
    assert store.batch(batch_id) == before
    assert [line.number for line in store.pending(batch_id, 0, 10)] == [2]
    assert sorted(path.name for path in (store.folder / "files").iterdir()) == [before.input_file_id]


def test_an_interrupted_end_is_made_again(store, monkeypatch):
    batch_id = add_batch(store)
    store.record(batch_id, [answer(1), answer(2)])
    monkeypatch.setattr(store, "_insert_file", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.finalize(batch_id)
    assert store.batch(batch_id).status == "finalizing"
    monkeypatch.undo()
    store.finalize(batch_id)
    done = store.batch(batch_id)
    assert done.status == "completed"
    assert store.path(done.output_file_id).read_bytes() == b'{"line": 1}\n{"line": 2}\n'
    assert done.error_file_id is None


def test_an_input_in_use_cannot_be_deleted(store):
    batch_id = add_batch(store)
    file_id = store.batch(batch_id).input_file_id
    with pytest.raises(ApiError, match=batch_id) as refused:
        store.delete_file(file_id)
    assert refused.value.status == 409
    store.finalize(batch_id)
    store.delete_file(file_id)


def test_cancelling(store):
    batch_id = add_batch(store, begun=0)
    assert store.cancel(batch_id).status == "cancelling"
    store.begin(batch_id, [PendingLine(1, 0, 6, "a")])
    assert store.batch(batch_id).request_counts.total == 0
    store.finalize(batch_id)
    assert store.batch(batch_id).status == "cancelled"
    with pytest.raises(ApiError, match="is cancelled") as refused:
        store.cancel(batch_id)
    assert refused.value.status == 409


def test_the_oldest_of_a_model_comes_first(store):
    add_batch(store, 1, model="other")
    add_batch(store, 2, begun=0)
    add_batch(store, 3)
    add_batch(store, 4)
    assert store.oldest(("in_progress",), ("m",)).id == "batch_3"
    assert store.oldest(("validating", "in_progress"), ("m", "other")).id == "batch_1"
    assert store.oldest(("finalizing",), ("m",)) is None


def test_unfinished_batches_are_bounded_in_number(store):
    batch = store.batch(add_batch(store))
    with pytest.raises(ApiError) as refused:
        store.add_batch(batch, limit=1)
    assert refused.value.status == 429


def test_two_servers_cannot_share_a_folder(store):
    with pytest.raises(FolderInUseError, match="--data-dir"):
        Store(store.folder)


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert not is_begun(tmp_path / "file")
    with pytest.raises(StorageError, match="cannot be used"):
        Store(tmp_path / "file")


def test_a_full_disk_loses_nothing(store):
    batch_id = add_batch(store)
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    answers = [answer(1, result=b"1" * 100_000), answer(2, result=b"2" * 100_000)]
    with pytest.raises(StorageError, match="full"):
        store.record(batch_id, answers)
    assert store.batch(batch_id).request_counts.completed == 0
    assert len(store.pending(batch_id, 0, 10)) == 2
    store._db.execute("PRAGMA max_page_count = 1000000")
    store.record(batch_id, answers)
    assert store.batch(batch_id).request_counts.completed == 2
