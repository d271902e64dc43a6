"""Log lines: text for people, JSON for programs, with the request's id."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from tenfold.observe.logs import access_log, configure_logging, request_id, timestamp


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("tenfold")
    before = root.handlers[:], root.level, ours.level, access_log.level
    token = request_id.set("")
    yield
    request_id.reset(token)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])
    access_log.setLevel(before[3])


def log(form, level="info", access=True):
    stream = io.StringIO()
    configure_logging(form, level, stream=stream, access=access)
    return logging.getLogger("tenfold.test"), stream


def test_json_lines():
    logger, stream = log("json")
    logger.info("100%% of %s", "it", extra={"fields": {"status": 200}})
    request_id.set("r1")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logger.exception("it failed")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {"level": "info", "logger": "tenfold.test", "message": "100% of it", "status": 200}
    assert second["request_id"] == "r1"
    assert "ValueError: two\nlines" in second["exception"]


def test_text_lines():
    logger, stream = log("text")
    request_id.set("r1")
    logger.warning("careful")
    fields = {
        "request_id": "r1",
        "method": "GET",
        "status": 200,
        "key": None,
        "finish_reasons": ["stop", "length"],
    }
    logger.info("GET / 200", extra={"fields": fields})
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(r"\S+Z WARNING tenfold.test: careful \(request r1\)", first)
    assert second.endswith("INFO tenfold.test: GET / 200 request_id=r1 finish_reasons=stop,length")


@pytest.mark.parametrize(
    ("level", "ours", "theirs"), [("debug", 4, 2), ("info", 3, 2), ("warning", 2, 2), ("error", 1, 1)]
)
def test_levels_are_ours_and_others_only_warn(level, ours, theirs):
    logger, stream = log("text", level)
    for each in (logger, logging.getLogger("another.library")):
        for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            each.log(number, "said")
    lines = stream.getvalue().splitlines()
    assert len([line for line in lines if "tenfold.test" in line]) == ours
    assert len([line for line in lines if "another.library" in line]) == theirs


def test_timestamps():
    assert timestamp(0.1239) == "1970-01-01T00:00:00.123Z"


@pytest.mark.parametrize("access", [False, True])
def test_lines_of_requests_can_be_left_out(access):
    logger, stream = log("text", access=access)
    access_log.info("GET / 200")
    logger.info("other")
    assert len(stream.getvalue().splitlines()) == 1 + access
