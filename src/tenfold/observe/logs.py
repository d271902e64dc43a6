"""Logging: a line an event on stderr, as text for people or as JSON for programs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any, TextIO

import msgspec

access_log = logging.getLogger("tenfold.access")
# Set while a request is served, so that whatever is logged meanwhile says for whom.
request_id: ContextVar[str] = ContextVar("request_id", default="")


def configure_logging(form: str, level: str, *, access: bool = True, stream: TextIO | None = None) -> None:
    """Log Tenfold's events from `level` on, and other libraries' warnings.

    Args:
        form: "text" or "json".
        level: "debug", "info", "warning" or "error".
        access: log a line for each request.
        stream: stderr when left out.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    number: int = getattr(logging, level.upper())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger("tenfold").setLevel(number)
    access_log.setLevel(logging.NOTSET if access else logging.CRITICAL)


class TextFormatter(logging.Formatter):
    """`2026-12-01T12:00:00.000Z INFO tenfold.access: message name=value ...`, then a traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One event."""
        text = f"{timestamp(record.created)} {record.levelname} {record.name}: {record.getMessage()}"
        fields: Mapping[str, Any] | None = getattr(record, "fields", None)
        if fields is not None:
            text += "".join(
                f" {name}={_plain(value)}" for name, value in fields.items() if _tells(name, value)
            )
        elif current := request_id.get():
            text += f" (request {current})"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message, request_id, the event's own fields, exception."""

    def format(self, record: logging.LogRecord) -> str:
        """One event."""
        event: dict[str, Any] = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if current := request_id.get():
            event["request_id"] = current
        event.update(getattr(record, "fields", {}))
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(event).decode()


def _tells(name: str, value: object) -> bool:
    """Whether a field adds to the message, which has a request's first three already."""
    return name not in ("method", "path", "status") and value is not None and value != []


def _plain(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601 in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
