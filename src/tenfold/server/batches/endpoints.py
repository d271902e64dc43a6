"""What a batch may ask for: the same code that answers over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from tenfold.core.errors import InvalidRequestError
from tenfold.observe.metrics import RequestTimer
from tenfold.server import chat, completions
from tenfold.server.decoding import decode
from tenfold.server.generation import Job, Writer
from tenfold.server.protocol import ChatRequest, CompletionRequest, GenerationRequest
from tenfold.server.service import Service


class Endpoint(NamedTuple):
    """One route as batches use it.

    Args:
        decoder: of its bodies.
        open_job: a body as a job and the writer of its reply; safe in a thread.
    """

    decoder: msgspec.json.Decoder[Any]
    open_job: Callable[[Service, bytes, RequestTimer], tuple[Job, Writer]]

    def check(self, service: Service, body: bytes) -> None:
        """Raise InvalidRequestError or ApiError for a body that can never run; what else is wrong shows at its turn."""
        request: GenerationRequest = decode(self.decoder, body)
        service.check_model(request.model)
        if request.stream:
            raise InvalidRequestError(
                "stream is true, but a batch has nobody to stream to; drop it.", param="stream"
            )


ENDPOINTS = {
    chat.PATH: Endpoint(msgspec.json.Decoder(ChatRequest), chat.open_job),
    completions.PATH: Endpoint(msgspec.json.Decoder(CompletionRequest), completions.open_job),
}
