"""A request as spans: itself, and inside it the queue, the prefill and the decode, by the engine's own stamps.

Names are those of the GenAI semantic conventions (https://opentelemetry.io/docs/specs/semconv/gen-ai/) where they have
one. There are no contents.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

from starlette.types import Scope

from tenfold.observe.otlp import SERVER, Span
from tenfold.server.record import RequestRecord

# Of version 00 nothing may follow the flags; of later ones more may.
_TRACEPARENT = re.compile(rb"(?!ff)(?!00.{53}-)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MAX_TRACE_STATE = 512
_OPERATIONS = {"/v1/chat/completions": "chat", "/v1/completions": "text_completion"}


class TraceContext:
    """Where a request's span belongs, by the W3C's headers (https://www.w3.org/TR/trace-context/).

    Args:
        scope: ASGI's; without a valid traceparent a trace begins here.
    """

    def __init__(self, scope: Scope) -> None:
        headers = {name: value for name, value in scope["headers"] if name in (b"traceparent", b"tracestate")}
        found = _TRACEPARENT.fullmatch(headers.get(b"traceparent", b""))
        if found is not None and set(found[1]) != {48} and set(found[2]) != {48}:  # all zeros mean nothing
            self.trace_id, self.parent_id = found[1].decode(), found[2].decode()
            self.sampled = bool(int(found[3], 16) & 1)
            state = headers.get(b"tracestate", b"")
            self.trace_state = state.decode("latin-1") if len(state) <= _MAX_TRACE_STATE else ""
        else:
            self.trace_id, self.parent_id = secrets.token_hex(16), ""
            self.sampled = True
            self.trace_state = ""


def spans(record: RequestRecord, scope: Scope) -> Iterator[Span]:
    """The spans of an ended request; none when its caller does not sample the trace, or it only looked."""
    context = TraceContext(scope)
    if not context.sampled or record.method != "POST":
        return
    span_id = secrets.token_hex(8)
    problem = _problem(record)
    operation = _OPERATIONS.get(record.path)
    yield Span(
        trace_id=context.trace_id,
        span_id=span_id,
        parent_id=context.parent_id,
        trace_state=context.trace_state,
        name=f"{operation} {record.model}" if operation and record.model else f"POST {record.path}",
        kind=SERVER,
        start=record.started_at,
        end=record.ended_at,
        attributes=_attributes(record, operation, problem),
        error=problem if problem == "cancelled" or record.status >= 500 or record.status == 200 else "",
    )
    stages = record.stages()
    for name, start, end in zip(("queue", "prefill", "decode"), stages, stages[1:], strict=False):
        yield Span(
            trace_id=context.trace_id,
            span_id=secrets.token_hex(8),
            parent_id=span_id,
            trace_state=context.trace_state,
            name=name,
            start=start,
            end=end,
        )


def _problem(record: RequestRecord) -> str:
    if record.error is not None:
        return record.error
    return "cancelled" if record.status in (0, 499) or "unfinished" in record.finish_reasons else ""


def _attributes(record: RequestRecord, operation: str | None, problem: str) -> dict[str, Any]:
    fields = record.fields()
    found: dict[str, Any] = {
        "http.request.method": record.method,
        "url.path": record.path,
        "http.response.status_code": record.status,
        "client.address": record.client,
        "error.type": problem or None,
        "tenfold.request.id": record.id,
        "tenfold.key": record.key,
        "gen_ai.provider.name": "tenfold",
        "gen_ai.operation.name": operation,
        "gen_ai.request.model": record.model,
        "gen_ai.response.model": record.model,
        "gen_ai.response.id": record.response_id,
        "gen_ai.response.finish_reasons": record.finish_reasons or None,
        "gen_ai.usage.input_tokens": fields.get("prompt_tokens"),
        "gen_ai.usage.cache_read.input_tokens": fields.get("cached_tokens"),
        "gen_ai.usage.output_tokens": fields.get("completion_tokens"),
        "tenfold.time_to_first_token": fields.get("ttft_s"),
    }
    sampling = record.sampling
    if sampling is not None:
        found |= {
            "gen_ai.request.max_tokens": sampling.max_tokens,
            "gen_ai.request.choice.count": sampling.n if sampling.n != 1 else None,
            "gen_ai.request.temperature": float(sampling.temperature),
            "gen_ai.request.top_p": float(sampling.top_p),
            "gen_ai.request.seed": sampling.seed,
        }
    return found
