"""A server killed again and again amid a batch: every request is answered exactly once, with the same bits."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import httpx
import pytest

from tests.server.batches.inputs import CHAT, create, line, results, wait
from tests.tiny_models import write_tiny_gguf

COMMAND = (sys.executable, "-c", "from tenfold.cli.main import main; main()", "serve")
REQUESTS = 80


class Process:
    """`tenfold serve` as a process."""

    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *args, "--port", "0", "--threads", "1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        for text in self.process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+", text):
                self.client = httpx.Client(base_url=found[0], timeout=30)
                return
        raise AssertionError("the server said no address")

    def kill(self) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(write_tiny_gguf(tmp_path_factory.mktemp("kill") / "tiny.gguf", "llama", "Q8_0"))


def test_exactly_once_through_kills(tiny, tmp_path):
    lines = [
        line(
            f"id-{i}",
            CHAT,
            temperature=0,
            max_tokens=24,
            messages=[{"role": "user", "content": f"Number {i}"}],
        )
        for i in range(REQUESTS)
    ]
    lines[3]["body"]["top_p"] = 7
    arguments = (tiny, "--data-dir", str(tmp_path))
    process = Process(*arguments)
    batch_id = create(process.client, lines, CHAT)["id"]
    seen = []
    for kill in range(3):
        goal = (kill + 1) * REQUESTS // 5
        deadline = time.monotonic() + 60
        while True:
            batch = process.client.get(f"/v1/batches/{batch_id}").json()
            counts = batch["request_counts"]
            if counts["completed"] + counts["failed"] >= goal or batch["status"] == "completed":
                break
            assert time.monotonic() < deadline
        seen.append(counts["completed"] + counts["failed"])
        process.kill()
        process = Process(*arguments)
        counts = process.client.get(f"/v1/batches/{batch_id}").json()["request_counts"]
        assert counts["completed"] + counts["failed"] >= seen[-1]  # what was counted is kept
    try:
        assert seen[0] < REQUESTS
        done = wait(process.client, batch_id)
        assert done["request_counts"] == {"total": REQUESTS, "completed": REQUESTS - 1, "failed": 1}
        good, bad = (results(process.client, done[f"{kind}_file_id"]) for kind in ("output", "error"))
        assert [one["custom_id"] for one in bad] == ["id-3"]
        assert [one["custom_id"] for one in good] == [f"id-{i}" for i in range(REQUESTS) if i != 3]
        for one, request in list(zip(good, [x for x in lines if x["custom_id"] != "id-3"], strict=True))[
            ::17
        ]:
            direct = process.client.post(CHAT, json=request["body"]).json()
            assert one["response"]["body"]["choices"] == direct["choices"]
        files = process.client.get("/v1/files").json()["data"]
        assert len(files) == len(list((tmp_path / "batches" / "files").iterdir())) == 3
    finally:
        process.kill()
