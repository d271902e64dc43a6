"""The ASGI application."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from tenfold.config.server import ServerSettings
from tenfold.server import admin, chat, completions, health, models, page, tokenize
from tenfold.server.batches import routes as batch_routes
from tenfold.server.batches.worker import Batches
from tenfold.server.engine import Engine
from tenfold.server.errors import route_error
from tenfold.server.gate import Gate
from tenfold.server.messages import routes as message_routes
from tenfold.server.messages.errors import shape_for
from tenfold.server.request_log import REPLY_HEADERS, RequestLog
from tenfold.server.responses import routes as responses
from tenfold.server.responses.store import ResponseStore
from tenfold.server.service import Service


def create_app(engine: Engine, settings: ServerSettings | None = None) -> Starlette:
    """The application over a started engine; its Service is at app.state.service, its Batches at app.state.batches."""
    service = Service(engine, settings or ServerSettings())
    batches = Batches(service)

    folder = service.settings.data_dir
    store = ResponseStore(Path(folder) / "responses.sqlite3" if folder else None)
    api = [
        *chat.routes(service),
        *completions.routes(service),
        *message_routes.routes(service),
        *responses.routes(service, store),
        *models.routes(service),
        *tokenize.routes(service),
        *batch_routes.routes(service, batches),
        *health.routes(service),
        *admin.routes(service),
    ]
    known = list(dict.fromkeys(route.path for route in api if "{" not in route.path))

    async def wrong_route(http: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        refusal = route_error(error, http.url.path, http.method, known)
        return service.refuse(refusal, shape_for(http.url.path))

    middleware = [Middleware(Gate, service=service)]
    if service.settings.cors_origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(service.settings.cors_origins),
            allow_methods=["GET", "POST", "DELETE", "OPTIONS"],
            expose_headers=REPLY_HEADERS,
            allow_headers=["*"],  # OpenAI's client sends a dozen of its own; the origins are what is guarded
        )
        middleware.insert(0, cors)
    middleware.insert(0, Middleware(RequestLog, service=service))
    app = Starlette(
        routes=[*api, *page.routes(service)],
        middleware=middleware,
        exception_handlers={HTTPException: wrong_route},
    )
    app.state.service = service
    app.state.batches = batches
    return app
