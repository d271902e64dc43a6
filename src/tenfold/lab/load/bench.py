"""`tenfold bench serve` from its settings to its report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import uvloop

from tenfold.core.errors import TenfoldError
from tenfold.lab.load.connection import ConnectionLostError, Target
from tenfold.lab.load.generator import LoadGenerator
from tenfold.lab.load.prompts import make_prompts, request_body
from tenfold.lab.load.report import LoadReport, make_report
from tenfold.lab.load.settings import LoadSettings

_ASK_SECONDS = 10.0
Progress = Callable[[str, int, int], None]


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


def bench_server(
    settings: LoadSettings, api_key: str | None = None, progress: Progress | None = None
) -> LoadReport:
    """Load a server and report.

    Args:
        settings: the load.
        api_key: the server's key, if it wants one.
        progress: called with (what is being done, done, total).

    Raises:
        TenfoldError: the settings are wrong, the dataset is unreadable, or the server does not answer.
    """
    settings.check()
    prompts = make_prompts(settings)
    target = Target(settings.url, api_key)

    async def load() -> LoadReport:
        model = settings.model or await first_model(target, settings.url)
        bodies = [request_body(prompt, settings, model) for prompt in prompts]
        on_done = None if progress is None else lambda done, total: progress("Requests", done, total)
        generator = LoadGenerator(target, settings, on_done)
        traces = await generator.run(bodies)
        return make_report(settings, model, traces, generator.peak_concurrency)

    return uvloop.run(load())


async def first_model(target: Target, url: str) -> str:
    """The first name of the server's /v1/models.

    Raises:
        TenfoldError: the server does not answer, or names no model.
    """
    body = bytearray()

    async def ask() -> int:
        connection = await target.connect()
        try:
            request = target.request("GET", "/v1/models")
            return (await connection.exchange(request, lambda piece, now: body.extend(piece))).status
        finally:
            connection.close()

    try:
        status = await asyncio.wait_for(ask(), _ASK_SECONDS)
    except (OSError, ConnectionLostError, asyncio.TimeoutError) as problem:
        reason = str(problem) or f"no answer within {_ASK_SECONDS:g} s"
        raise TenfoldError(
            f"The server at {url} does not answer ({reason}); start it or give --url."
        ) from None
    if status in (401, 403):
        raise TenfoldError(f"The server at {url} wants an API key (HTTP {status}); give --api-key.")
    try:
        names = msgspec.json.decode(bytes(body), type=_Models).data
    except msgspec.DecodeError:
        names = []
    if status != 200 or not names:
        raise TenfoldError(f"The server at {url} names no model (HTTP {status}); give --model.")
    return names[0].id
