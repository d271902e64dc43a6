"""Batches for tests, and what came of them."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ENDED = ("completed", "failed", "cancelled")


def line(custom_id: str, url: str = TEXT, **body: Any) -> dict[str, Any]:
    if url == TEXT:
        body.setdefault("prompt", "hello")
    else:
        body.setdefault("messages", [{"role": "user", "content": "hello"}])
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def jsonl(lines: list[Any]) -> bytes:
    return b"".join(
        (one if isinstance(one, bytes) else json.dumps(one, ensure_ascii=False).encode()) + b"\n"
        for one in lines
    )


def upload(client: httpx.Client, data: bytes, name: str = "requests.jsonl") -> dict[str, Any]:
    response = client.post("/v1/files", files={"file": (name, data)}, data={"purpose": "batch"})
    assert response.status_code == 200, response.text
    return dict(response.json())


def create(client: httpx.Client, lines: list[Any], endpoint: str = TEXT) -> dict[str, Any]:
    file = upload(client, jsonl(lines))
    response = client.post(
        "/v1/batches",
        json={"input_file_id": file["id"], "endpoint": endpoint, "completion_window": "24h"},
    )
    assert response.status_code == 200, response.text
    return dict(response.json())


def wait(client: httpx.Client, batch_id: str, *, until: tuple[str, ...] = ENDED, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        batch = client.get(f"/v1/batches/{batch_id}").json()
        if batch["status"] in until:
            return batch
        assert time.monotonic() < deadline, batch
        time.sleep(0.01)


def results(client: httpx.Client, file_id: str | None) -> list[dict[str, Any]]:
    if file_id is None:
        return []
    text = client.get(f"/v1/files/{file_id}/content").text
    return [json.loads(one) for one in text.splitlines()]
