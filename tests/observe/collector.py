"""An OpenTelemetry collector for tests: keeps what is posted to it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class Collector:
    """Listens while the block lasts; answers with `status`."""

    def __init__(self, status: int = 200) -> None:
        self.posts: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        posts = self.posts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                posts.append((self.path, headers, json.loads(body)))
                self.send_response(status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def spans(self) -> list[dict[str, Any]]:
        """Every span so far, its attributes as a plain dictionary."""
        found = []
        for _, _, body in self.posts:
            for resource in body["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    found += [{**span, "attributes": plain(span["attributes"])} for span in scope["spans"]]
        return found


def plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    """OTLP's list of attributes as a dictionary."""
    return {item["key"]: _value(item["value"]) for item in attributes}


def _value(value: dict[str, Any]) -> Any:
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return [_value(item) for item in inner["values"]]
    return int(inner) if kind == "intValue" else inner
