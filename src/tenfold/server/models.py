"""GET /v1/models."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tenfold.server.replies import ModelCard, ModelList
from tenfold.server.service import Service, json_response


def routes(service: Service) -> list[Route]:
    """The list of models, and each of them."""

    def card(name: str) -> ModelCard:
        engine = service.engine
        return ModelCard(
            id=name, created=service.created, root=engine.model_name, max_model_len=engine.max_model_len
        )

    async def every(http: Request) -> Response:
        return json_response(ModelList(data=[card(name) for name in service.model_names]))

    async def one(http: Request) -> Response:
        return json_response(card(service.check_model(http.path_params["name"])))

    return [
        Route("/v1/models", service.endpoint(every), methods=["GET"]),
        Route("/v1/models/{name:path}", service.endpoint(one), methods=["GET"]),
    ]
