"""The tool suite's judge, and its client against a scripted server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.tool_cases import CASES, Case
from bench.tool_suite import judge, main
from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer


def answer(*calls: tuple[str, Any], content: str | None = None) -> dict[str, Any]:
    made = [{"function": {"name": name, "arguments": json.dumps(arguments)}} for name, arguments in calls]
    return {"content": content, "tool_calls": made}


def first_of(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) else value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.question)
def test_every_case_has_a_right_answer(case: Case):
    calls = [(name, {key: first_of(value) for key, value in wanted.items()}) for name, wanted in case.calls]
    right = answer(*calls, content=f"It is {first_of(case.says or 'so')}.")
    assert judge(case, right) is None
    assert judge(case, answer()) is not None
    assert judge(case, answer(*calls, ("get_time", {"city": "Mars"}), content="?")) is not None


def test_what_is_wrong():
    case = next(case for case in CASES if case.question == "Set a timer for 12 minutes.")
    assert judge(case, answer(("set_timer", {"minutes": 12.0}))) is None
    for wrong in ({"minutes": "12"}, {"minutes": 13}, {}, []):
        assert "no call" in (judge(case, answer(("set_timer", wrong))) or "")
    broken = {"tool_calls": [{"function": {"name": "set_timer", "arguments": '{"minutes": 1'}}]}
    assert "not JSON" in (judge(case, broken) or "")


def test_the_score(capsys):
    scores = []
    with RunningServer(
        FakeEngine('{"name": "get_time", "arguments": {"city": "Tokyo"}}', max_model_len=2048)
    ) as server:
        for flags in ([], ["--stream"]):
            assert main(["--url", f"{server.url}/v1", "--json", *flags]) == 0
            scores.append(json.loads(capsys.readouterr().out))
        main(["--url", f"{server.url}/v1"])
    assert scores[0] == scores[1]
    assert (scores[0]["score"], scores[0]["cases"], scores[0]["model"]) == (1, 30, "fake")
    assert "fake: 1 of 30" in capsys.readouterr().out
