from __future__ import annotations

import pytest

from bench.entrant import PeerError, Sample
from bench.measure import Course, drop_hopeless, figure, measure_row
from bench.scenarios import Row, Target
from bench.verdict import best_of, judge

ROW = Row("tg", "decode", 16, title="decode")


class Scripted:
    """Gives prepared rates, or raises prepared sentences, and notes when it was asked."""

    def __init__(self, engine: str, rates: list[float | str], calls: list[str], label: str = "") -> None:
        self.engine = engine
        self.label = label or engine
        self._rates = iter(rates)
        self._calls = calls

    def measure(self, row: Row) -> Sample:
        self._calls.append(self.label)
        rate = next(self._rates)
        if isinstance(rate, str):
            raise PeerError(rate)
        return Sample(rate, {"share_of_ceiling": 0.5} if self.engine == "tenfold" else {})

    def close(self) -> None:
        pass


def run(*entrants: Scripted, repeats: int = 3) -> list[Course]:
    return measure_row(ROW, entrants, repeats, lambda row, number, label, outcome: None)


def test_rounds_are_interleaved_and_medians_compared() -> None:
    calls: list[str] = []
    ours = Scripted("tenfold", [10.0, 40.0, 30.0], calls)
    plain = Scripted("llama.cpp", [14.0, 1.0, 2.0], calls, "llama.cpp")
    flash = Scripted("llama.cpp", [20.0, 15.0, 10.0], calls, "llama.cpp fa")
    figures = [figure(course) for course in run(ours, plain, flash)]
    assert calls == ["tenfold", "llama.cpp", "llama.cpp fa"] * 3
    first = figures[0]
    assert (first["median"], first["lowest"], first["highest"]) == (30.0, 10.0, 40.0)
    result = judge(ROW, figures, [Target(2.0), Target(2.5), Target(1.0, "vllm")])
    assert (result["best_peer"], result["ratio_to_best_peer"]) == ("llama.cpp fa", 2.0)
    assert result["share_of_ceiling"] == 0.5
    assert [target["met"] for target in result["targets"]] == [True, False, None]
    best = best_of(result, "llama.cpp")
    assert best is not None and best["label"] == "llama.cpp fa"
    assert best_of(result, "vllm") is None


def test_a_far_slower_peer_is_measured_once() -> None:
    calls: list[str] = []
    courses = run(
        Scripted("tenfold", [1.0] * 3, calls),
        Scripted("a", [100.0] * 3, calls),
        Scripted("b", [49.0] * 3, calls),
        Scripted("c", [51.0] * 3, calls),
    )
    assert [len(course.samples) for course in courses] == [3, 3, 1, 3], "Tenfold itself is never dropped"
    assert courses[2].state == "once" and "below 50%" in courses[2].why


@pytest.mark.parametrize(("rate", "state"), [(89.0, "once"), (91.0, "measured")])
def test_a_slow_sample_must_be_nearer(rate: float, state: str) -> None:
    courses = [
        Course(Scripted(name, [], []), [Sample(value)], seconds=11.0)
        for name, value in (("a", 100.0), ("b", rate))
    ]
    drop_hopeless(courses)
    assert [course.state for course in courses] == ["measured", state]


def test_a_failure_is_recorded_and_not_tried_again() -> None:
    calls: list[str] = []
    ours = Scripted("tenfold", [6.0, 6.0], calls)
    broken = Scripted("a", ["many words:\nno memory"], calls)
    later = Scripted("b", [3.0, "gone"], calls)
    figures = [figure(course) for course in run(ours, broken, later, repeats=2)]
    assert calls == ["tenfold", "a", "b", "tenfold", "b"]
    assert (figures[1]["state"], figures[1]["why"], figures[1]["median"]) == ("failed", "no memory", None)
    assert (figures[2]["state"], figures[2]["median"]) == ("failed", 3.0)
    result = judge(ROW, figures, [Target(2.0), Target(2.0, "a")])
    assert [target["met"] for target in result["targets"]] == [True, None]


def test_without_tenfold_there_is_no_ratio() -> None:
    figures = [
        figure(course) for course in run(Scripted("tenfold", ["oh"], []), Scripted("a", [1.0], []), repeats=1)
    ]
    result = judge(ROW, figures, [Target(2.0)])
    assert (result["tenfold"], result["ratio_to_best_peer"], result["targets"][0]["met"]) == (
        None,
        None,
        None,
    )
