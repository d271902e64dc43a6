"""/v1/files and /v1/batches."""

from __future__ import annotations

import time
import uuid

import msgspec
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from tenfold.core.errors import InvalidRequestError
from tenfold.server.batches.endpoints import ENDPOINTS
from tenfold.server.batches.objects import Batch, BatchRequest, FileDeleted
from tenfold.server.batches.store import Store
from tenfold.server.batches.upload import Uploads, file_of
from tenfold.server.batches.worker import Batches
from tenfold.server.decoding import decode
from tenfold.server.service import Service, json_response

_MAX_NAME_CHARS = 255
_MAX_WINDOW_CHARS = 32
_MAX_METADATA = 16
_MAX_METADATA_CHARS = 512

_decoder = msgspec.json.Decoder(BatchRequest)


def routes(service: Service, batches: Batches) -> list[Route]:
    """The routes of files and batches."""
    return [*_file_routes(service, batches), *_batch_routes(service, batches)]


def _file_routes(service: Service, batches: Batches) -> list[Route]:
    uploads = Uploads(service.settings)

    async def upload(http: Request) -> Response:
        async with uploads.form(http) as form:
            purpose = form.get("purpose")
            if purpose != "batch":
                raise InvalidRequestError(
                    "purpose must be batch; files serve nothing else here.", param="purpose"
                )
            source, name = file_of(form)
            limit = service.settings.max_files
            file = await batches.call(Store.add_file, source, name[:_MAX_NAME_CHARS], "batch", limit=limit)
        return json_response(file)

    async def every(http: Request) -> Response:
        query = http.query_params
        newest_first = query.get("order", "desc") != "asc"
        return json_response(
            await batches.call(
                Store.files,
                query.get("after"),
                _limit(query.get("limit"), 10_000),
                newest_first,
                query.get("purpose"),
            )
        )

    async def one(http: Request) -> Response:
        return json_response(await batches.call(Store.file, http.path_params["file_id"]))

    async def content(http: Request) -> Response:
        file = await batches.call(Store.file, http.path_params["file_id"])
        path = await batches.call(Store.path, file.id)
        return FileResponse(path, media_type="application/octet-stream", filename=file.filename)

    async def delete(http: Request) -> Response:
        file_id = http.path_params["file_id"]
        await batches.call(Store.delete_file, file_id)
        return json_response(FileDeleted(id=file_id))

    return [
        Route("/v1/files", service.endpoint(upload), methods=["POST"]),
        Route("/v1/files", service.endpoint(every), methods=["GET"]),
        Route("/v1/files/{file_id}", service.endpoint(one), methods=["GET"]),
        Route("/v1/files/{file_id}", service.endpoint(delete), methods=["DELETE"]),
        Route("/v1/files/{file_id}/content", service.endpoint(content), methods=["GET"]),
    ]


def _batch_routes(service: Service, batches: Batches) -> list[Route]:
    async def create(http: Request) -> Response:
        request = await service.prepare(lambda body: decode(_decoder, body), http)
        _check(request)
        await batches.call(Store.file, request.input_file_id)
        batch = Batch(
            id=f"batch_{uuid.uuid4().hex}",
            endpoint=request.endpoint,
            model=service.model_names[0],
            input_file_id=request.input_file_id,
            completion_window=request.completion_window,
            created_at=int(time.time()),
            metadata=request.metadata,
        )
        return json_response(await batches.add(batch))

    async def every(http: Request) -> Response:
        query = http.query_params
        page = await batches.call(Store.batches, query.get("after"), _limit(query.get("limit"), 100))
        return json_response(
            msgspec.structs.replace(page, data=[batches.shown(batch) for batch in page.data])
        )

    async def one(http: Request) -> Response:
        return json_response(batches.shown(await batches.call(Store.batch, http.path_params["batch_id"])))

    async def cancel(http: Request) -> Response:
        return json_response(await batches.cancel(http.path_params["batch_id"]))

    return [
        Route("/v1/batches", service.endpoint(create), methods=["POST"]),
        Route("/v1/batches", service.endpoint(every), methods=["GET"]),
        Route("/v1/batches/{batch_id}", service.endpoint(one), methods=["GET"]),
        Route("/v1/batches/{batch_id}/cancel", service.endpoint(cancel), methods=["POST"]),
    ]


def _check(request: BatchRequest) -> None:
    if request.endpoint not in ENDPOINTS:
        raise InvalidRequestError(
            f"endpoint is {request.endpoint[:100]!r}; batches can ask for {' or '.join(ENDPOINTS)}.",
            param="endpoint",
        )
    if not 1 <= len(request.completion_window) <= _MAX_WINDOW_CHARS:
        raise InvalidRequestError(
            'completion_window must be a time such as "24h".', param="completion_window"
        )
    metadata = request.metadata or {}
    if len(metadata) > _MAX_METADATA or any(
        len(text) > _MAX_METADATA_CHARS for entry in metadata.items() for text in entry
    ):
        raise InvalidRequestError(
            f"metadata may have {_MAX_METADATA} entries of up to {_MAX_METADATA_CHARS} characters.",
            param="metadata",
        )


def _limit(text: str | None, most: int) -> int:
    if text is None:
        return min(most, 20 if most <= 100 else most)
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise InvalidRequestError(f"limit is {text[:40]!r}; it must be from 1 to {most}.", param="limit")
    return int(text)
