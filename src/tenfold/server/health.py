"""GET /health, /version and /metrics: what monitors ask."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenfold import __version__
from tenfold.observe.metrics import CONTENT_TYPE
from tenfold.server.service import Service, json_response


def routes(service: Service) -> list[Route]:
    """The monitors' routes."""

    async def health(http: Request) -> Response:
        dead = service.engine.stats().dead
        if dead is not None:
            return json_response({"status": "dead", "reason": dead}, status=503)
        if service.draining:
            return json_response({"status": "shutting down"}, status=503)
        return json_response({"status": "ok"})

    async def version(http: Request) -> Response:
        return json_response({"version": __version__})

    async def metrics(http: Request) -> Response:
        if service.audit_log is not None:
            service.metrics.audit_lines_lost = service.audit_log.lost
        return Response(
            service.metrics.render(service.engine.stats()), headers={"Content-Type": CONTENT_TYPE}
        )

    return [
        Route("/health", service.endpoint(health), methods=["GET"]),
        Route("/version", service.endpoint(version), methods=["GET"]),
        Route("/metrics", service.endpoint(metrics), methods=["GET"]),
    ]
