"""GET / and /monitor: the chat page, and the graphs of the metrics."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenfold.server.service import Service

_FOLDER = Path(__file__).parent / "web"
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/web/chat.css": ("chat.css", "text/css; charset=utf-8"),
    "/web/chat.js": ("chat.js", "text/javascript; charset=utf-8"),
    "/monitor": ("monitor.html", "text/html; charset=utf-8"),
    "/web/monitor.css": ("monitor.css", "text/css; charset=utf-8"),
    **{
        f"/web/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
        for name in ("metrics", "monitor", "theme", "tokens")
    },
    "/web/markdown.js": ("markdown.js", "text/javascript; charset=utf-8"),
    "/web/stream.js": ("stream.js", "text/javascript; charset=utf-8"),
    "/web/icon.svg": ("icon.svg", "image/svg+xml"),
}
OPEN_PATHS = frozenset(_FILES)
# The page loads nothing from elsewhere, and nothing a model writes can run.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def routes(service: Service) -> list[Route]:
    """The page and its files."""

    async def serve(http: Request) -> Response:
        name, kind = _FILES[http.url.path]
        return Response((_FOLDER / name).read_bytes(), headers={**_HEADERS, "Content-Type": kind})

    return [Route(path, service.endpoint(serve), methods=["GET"]) for path in _FILES]
