"""Files and batches as the openai package asks for them, and what is refused."""

from __future__ import annotations

import time

import httpx
import openai
import pytest

from tests.server.batches.inputs import CHAT, TEXT, create, jsonl, line, upload, wait
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer
from tests.server.test_bad_input import error_of


@pytest.fixture(scope="module")
def server():
    with RunningServer(FakeEngine(), max_file_bytes=100_000) as server:
        yield server


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
        yield client


def test_the_openai_client_from_upload_to_results(client):
    data = jsonl([line("a", CHAT), line("b", CHAT, temperature=-1)])
    file = client.files.create(file=("in.jsonl", data), purpose="batch")
    assert (file.bytes, file.filename, file.status) == (len(data), "in.jsonl", "processed")
    batch = client.batches.create(
        input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"for": "tests"}
    )
    while batch.status not in ("completed", "failed"):
        time.sleep(0.01)
        batch = client.batches.retrieve(batch.id)
    assert (batch.status, batch.metadata) == ("completed", {"for": "tests"})
    assert (batch.request_counts.completed, batch.request_counts.failed) == (1, 1)
    assert '"custom_id":"a"' in client.files.content(batch.output_file_id).text
    assert '"custom_id":"b"' in client.files.content(batch.error_file_id).text
    assert batch.id in [one.id for one in client.batches.list(limit=1)]
    assert client.files.retrieve(batch.output_file_id).purpose == "batch_output"
    kinds = {one.purpose for one in client.files.list(limit=1)}
    assert kinds == {"batch", "batch_output"}
    assert client.files.delete(file.id).deleted
    with pytest.raises(openai.NotFoundError, match="no file"):
        client.files.retrieve(file.id)
    with pytest.raises(openai.ConflictError, match="is completed"):
        client.batches.cancel(batch.id)


def test_bytes_come_back_as_they_were(server):
    data = bytes(range(256)) * 200
    file = upload(server.client, data, "ü.bin")
    response = server.client.get(f"/v1/files/{file['id']}/content")
    assert response.content == data
    assert file["filename"] == "ü.bin"


@pytest.mark.parametrize(
    ("request_fields", "status", "words"),
    [
        ({"json": {}}, 400, "multipart/form-data"),
        ({"files": {"file": ("a", b"x")}}, 400, "purpose must be batch"),
        ({"files": {"file": ("a", b"x")}, "data": {"purpose": "fine-tune"}}, 400, "purpose must be batch"),
        ({"files": {"other": ("a", b"x")}, "data": {"purpose": "batch"}}, 400, "file is missing"),
        ({"files": [("file", ("a", b"x"))] * 2, "data": {"purpose": "batch"}}, 400, "Too many files"),
        ({"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}, 400, "boundary"),
        (
            {"content": b"nonsense", "headers": {"Content-Type": "multipart/form-data; boundary=b"}},
            400,
            "cannot be read",
        ),
        ({"files": {"file": ("a", b"x" * 400_000)}, "data": {"purpose": "batch"}}, 413, "100000 bytes"),
    ],
)
def test_wrong_uploads(server, request_fields, status, words):
    response = server.client.post("/v1/files", **request_fields)
    assert response.status_code == status
    assert words in error_of(response)["message"]


def test_an_endless_upload_ends(server):
    def body():
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        while True:
            yield b"x" * 10_000

    try:
        response = server.client.post(
            "/v1/files", content=body(), headers={"Content-Type": "multipart/form-data; boundary=b"}
        )
    except httpx.TransportError:
        return  # it was cut off before it looked for an answer
    assert response.status_code == 413


def test_a_slow_upload_is_refused():
    with RunningServer(FakeEngine(), body_timeout_s=0.2) as server:

        def body():
            yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
            time.sleep(1)
            yield b"x"

        try:
            response = server.client.post(
                "/v1/files", content=body(), headers={"Content-Type": "multipart/form-data; boundary=b"}
            )
        except httpx.TransportError:
            return
        assert response.status_code == 408


@pytest.mark.parametrize(
    ("changes", "status", "param"),
    [
        ({"endpoint": "/v1/embeddings"}, 400, "endpoint"),
        ({"completion_window": ""}, 400, "completion_window"),
        ({"input_file_id": "file-none"}, 404, None),
        ({"input_file_id": "../lock"}, 404, None),
        ({"input_file_id": 5}, 400, "input_file_id"),
        ({"metadata": {str(i): "x" for i in range(17)}}, 400, "metadata"),
    ],
)
def test_wrong_batches(server, changes, status, param):
    file = upload(server.client, jsonl([line("a")]))
    body = {"input_file_id": file["id"], "endpoint": TEXT, "completion_window": "24h", **changes}
    response = server.client.post("/v1/batches", json=body)
    assert response.status_code == status
    assert error_of(response)["param"] == param


@pytest.mark.parametrize("limit", ["0", "101", "x", "-1"])
def test_wrong_limits(server, limit):
    assert server.client.get(f"/v1/batches?limit={limit}").status_code == 400


@pytest.mark.parametrize("path", ["/v1/files/none", "/v1/files/none/content", "/v1/batches/none"])
def test_what_is_not_there(server, path):
    response = server.client.get(path)
    assert response.status_code == 404
    assert "'none'" in error_of(response)["message"]


def test_a_deleted_input_ends_no_server(server):
    batch = create(server.client, [line("a")])
    done = wait(server.client, batch["id"])
    assert server.client.delete(f"/v1/files/{done['input_file_id']}").status_code == 200
    assert server.client.get(f"/v1/batches/{batch['id']}").json()["status"] == "completed"


def test_the_number_of_files_is_bounded():
    with RunningServer(FakeEngine(), max_files=1) as server:
        upload(server.client, b"x")
        response = server.client.post("/v1/files", files={"file": ("a", b"x")}, data={"purpose": "batch"})
        assert response.status_code == 400
        assert error_of(response)["code"] == "too_many_files"


def test_without_a_data_folder_none_are_taken():
    with RunningServer(FakeEngine(), data_dir="") as server:
        response = server.client.get("/v1/files")
        assert response.status_code == 501
        assert "--data-dir" in error_of(response)["message"]


def test_keys_guard_files_too():
    with RunningServer(FakeEngine(), api_keys=("secret",)) as server:
        assert server.client.get("/v1/files").status_code == 401
        assert server.client.get("/v1/files", headers={"Authorization": "Bearer secret"}).status_code == 200


def test_a_file_of_the_limits_size_is_taken(server):
    assert upload(server.client, b"y" * 100_000)["bytes"] == 100_000
