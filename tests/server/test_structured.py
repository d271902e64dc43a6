"""Structured output by every name that clients know it under."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tenfold.config.engine import EngineSettings
from tenfold.core.structured_output import StructuredOutput
from tenfold.engine.async_engine import AsyncEngine
from tenfold.engine.model import load_model
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer, wait_until
from tests.server.test_bad_input import error_of
from tests.server.test_chat import events
from tests.tiny_models import write_tiny_gguf

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"enum": ["Ann", 'Bob "B"', "Zoë"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
OPENAI = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
SCHEMA_PARAM = "response_format.json_schema.schema"

WISHES: list[tuple[dict[str, Any], StructuredOutput | None]] = [
    ({}, None),
    ({"response_format": None}, None),
    ({"response_format": {"type": "text"}}, None),
    ({"response_format": {"type": "json_object"}}, StructuredOutput("json_object")),
    ({"response_format": OPENAI}, StructuredOutput("json_schema", json.dumps(SCHEMA))),
    ({"structured_outputs": {"json": SCHEMA}}, StructuredOutput("json_schema", json.dumps(SCHEMA))),
    (
        {"structured_outputs": {"json": json.dumps(SCHEMA)}},
        StructuredOutput("json_schema", json.dumps(SCHEMA)),
    ),
    ({"structured_outputs": {"regex": "a+", "json": None}}, StructuredOutput("regex", "a+")),
    ({"structured_outputs": {"choice": ["a", 'b"é']}}, StructuredOutput("choice", '["a","b\\"é"]')),
    ({"structured_outputs": {"grammar": "start: A"}}, StructuredOutput("grammar", "start: A")),
    ({"structured_outputs": {"json_object": True}}, StructuredOutput("json_object")),
    ({"guided_json": True}, StructuredOutput("json_schema", "true")),
    ({"guided_json": None}, None),
    ({"guided_regex": "a+"}, StructuredOutput("regex", "a+")),
    ({"guided_choice": ["a"]}, StructuredOutput("choice", '["a"]')),
    ({"guided_grammar": "start: A"}, StructuredOutput("grammar", "start: A")),
]


def body(path: str, **fields: Any) -> bytes:
    ask = {"messages": [{"role": "user", "content": "hello"}]} if path == CHAT else {"prompt": "hello"}
    return json.dumps({**ask, "max_tokens": 3, **fields}).encode()


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(("fields", "structured"), WISHES, ids=lambda x: str(x)[:50])
def test_every_name(path: str, fields: dict[str, Any], structured: StructuredOutput | None) -> None:
    with RunningServer(FakeEngine()) as server:
        response = server.client.post(path, content=body(path, **fields))
        assert response.status_code == 200, response.text
        assert server.engine.requests[0].sampling.structured == structured
        assert [compiled for compiled, _ in server.engine.compiled] == ([structured] if structured else [])


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("name", ["guided_regex", "guided\\u005fregex", "guided_rege\\u0078"])
def test_compiling_stays_away_from_the_event_loop(path: str, name: str) -> None:
    content = body(path, guided_regex="a").replace(b"guided_regex", name.encode())
    with RunningServer(FakeEngine()) as server:
        assert server.client.post(path, content=content).status_code == 200
        ((_, thread),) = server.engine.compiled
    assert thread.startswith("tenfold-text")


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}, SCHEMA_PARAM),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": "impossible"}}}, SCHEMA_PARAM),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"json_object": False}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "impossible"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": ""}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": 3}}, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": "a"}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": ["a", 1]}}, "structured_outputs.choice[1]"),
        ({"structured_outputs": {"json": {"a": "impossible"}}}, "structured_outputs.json"),
        ({"guided_grammar": "impossible"}, "guided_grammar"),
        ({"guided_json": {"a": "impossible"}}, "guided_json"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.choice"),
        ({"guided_regex": "a", "guided_json": {}}, "guided_regex"),
        ({"response_format": {"type": "json_object"}, "guided_choice": ["a"]}, "guided_choice"),
    ],
    ids=str,
)
def test_refused_by_name(shared: RunningServer, path: str, fields: dict[str, Any], param: str) -> None:
    response = shared.client.post(path, content=body(path, **fields))
    assert response.status_code == 400
    assert error_of(response)["param"] == param


def test_a_schema_that_is_no_unicode_is_refused(shared: RunningServer) -> None:
    for broken in (b"\xff", b"\\ud800"):
        content = body(CHAT, guided_json="letters").replace(b"letters", broken)
        response = shared.client.post(CHAT, content=content)
        assert response.status_code == 400
        error_of(response)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    path = write_tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf", "llama", context=1024)
    settings = EngineSettings(threads=1, max_num_seqs=16, kv_cache_memory_bytes=1 << 24)
    with RunningServer(AsyncEngine(load_model(path, settings), "tiny")) as server:
        yield server
        wait_until(lambda: server.engine.stats().num_running + server.engine.stats().num_waiting == 0)
        time.sleep(0.05)
        server.engine.check()


@pytest.mark.parametrize("stream", [False, True])
def test_a_person_from_a_real_engine(real: RunningServer, stream: bool) -> None:
    content = body(CHAT, response_format=OPENAI, max_tokens=200, n=3, seed=4, stream=stream)
    response = real.client.post(CHAT, content=content)
    assert response.status_code == 200, response.text
    texts = dict.fromkeys(range(3), "")
    if stream:
        for choice in (choice for event in events(response.text) for choice in event["choices"]):
            texts[choice["index"]] += choice["delta"].get("content", "")
    else:
        texts = {choice["index"]: choice["message"]["content"] for choice in response.json()["choices"]}
        assert {choice["finish_reason"] for choice in response.json()["choices"]} == {"stop"}
    for text in texts.values():
        jsonschema.validate(json.loads(text), SCHEMA)


def test_completions_of_a_real_engine(real: RunningServer) -> None:
    content = body(
        TEXT, prompt=["one", "two"], structured_outputs={"regex": "[0-9]{2}:[0-9]{2}"}, max_tokens=20
    )
    for choice in real.client.post(TEXT, content=content).json()["choices"]:
        assert choice["finish_reason"] == "stop"
        assert re.fullmatch("[0-9]{2}:[0-9]{2}", choice["text"])


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "x"}}}},
            SCHEMA_PARAM,
        ),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": 5}}}, SCHEMA_PARAM),
        ({"guided_json": {"$ref": "#/a"}}, "guided_json"),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_regex": "(" * 10_000}, "guided_regex"),
        ({"guided_choice": [""]}, "guided_choice"),
        ({"guided_grammar": "start: (((("}, "guided_grammar"),
        ({"structured_outputs": {"regex": "a" * 300_000}}, "structured_outputs.regex"),
    ],
    ids=lambda x: str(x)[:50],
)
def test_bad_ones_are_refused_before_any_token(
    real: RunningServer, fields: dict[str, Any], param: str
) -> None:
    for path in (CHAT, TEXT):
        response = real.client.post(path, content=body(path, stream=True, **fields))
        assert response.status_code == 400
        assert error_of(response)["param"] == param


def test_clients_that_go_away_leave_nothing(real: RunningServer) -> None:
    content = body(CHAT, response_format={"type": "json_object"}, max_tokens=800, stream=True, n=4)
    for _ in range(5):
        with real.client.stream("POST", CHAT, content=content) as response:
            next(response.iter_lines())
    wait_until(lambda: real.engine.stats().num_running + real.engine.stats().num_waiting == 0)
