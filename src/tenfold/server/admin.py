"""POST /admin/reload: what SIGHUP does, for those who can send no signal."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenfold.server.errors import ApiError
from tenfold.server.service import Service, json_response


def routes(service: Service) -> list[Route]:
    """The administrators' route; it needs a key with the scope admin."""

    async def reload(http: Request) -> Response:
        problems = service.reload()
        if problems:
            raise ApiError(500, " ".join(problems), code="reload_failed")
        return json_response({"status": "ok"})

    return [Route("/admin/reload", service.endpoint(reload), methods=["POST"])]
