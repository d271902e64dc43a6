"""What is made of results: table, plots, the README's part."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from bench import readme, scaling
from bench.plot import _ticks, draw, draw_scaling
from bench.readme import BEGIN, END, kernels_of, replaced
from bench.table import COLUMNS, cells_of, markdown, notes_of

SVG = "{http://www.w3.org/2000/svg}"
ROOT = Path(__file__).parents[2]


def entrant(engine: str, median: float | None, state: str = "measured", why: str = "") -> dict[str, Any]:
    return {"engine": engine, "label": engine, "median": median, "state": state, "why": why, "details": []}


def result(**change: Any) -> dict[str, Any]:
    whole = {
        "row": "pp512",
        "title": "prefill, 512 tokens",
        "tenfold": 3000.0,
        "share_of_ceiling": 0.514,
        "best_peer": "llama.cpp",
        "ratio_to_best_peer": 2.0,
        "targets": [{"ratio": 2.5, "against": None, "reached": 2.0, "met": False}],
        "entrants": [
            entrant("tenfold", 3000.0),
            entrant("llama.cpp", 1500.0),
            entrant("llama.cpp", 99.94, "once"),
            entrant("vllm", 12.34, "once"),
            entrant("transformers", None, "failed", "no memory"),
        ],
    }
    return {**whole, **change}


def report(*rows: dict[str, Any], **change: Any) -> dict[str, Any]:
    whole = {
        "format": 2,
        "date": "2030-01-02T03:04:05+00:00",
        "cpu": "Fast & <Cheap>",
        "isa": "avx512",
        "threads": 2,
        "repeats": 5,
        "quick": False,
        "complete": True,
        "absent": {},
        "model": {"file": "m.gguf", "bytes": 5, "bits_per_weight": 4.5},
        "rows": list(rows),
        "checks": [],
    }
    return {**whole, **change}


def test_cells() -> None:
    cells = cells_of(result())
    assert cells == [
        "prefill, 512 tokens",
        "3000",
        "51%",
        "1500",
        "~12.3",
        "failed",
        "2.00 ×",
        "≥ 2.5 ×",
        "no",
    ]
    assert len(cells) == len(COLUMNS)
    assert cells_of(result(), short=True)[0] == "pp512"


def test_cells_of_nothing() -> None:
    empty = result(
        tenfold=None,
        share_of_ceiling=None,
        ratio_to_best_peer=None,
        targets=[{"ratio": 2.5, "against": None, "reached": None, "met": None}],
        entrants=[entrant("tenfold", None, "failed", "oh")],
    )
    assert cells_of(empty)[1:] == ["failed", "–", "–", "–", "–", "–", "≥ 2.5 ×", "–"]
    assert cells_of({**empty, "targets": []})[-2:] == ["–", "–"]


def test_targets_against_one_peer_are_notes() -> None:
    targets = [
        {"ratio": 10.0, "against": "transformers", "reached": 12.04, "met": True},
        {"ratio": 10.0, "against": "vllm", "reached": None, "met": None},
    ]
    assert notes_of(report(result(targets=targets, entrants=[]))) == [
        "prefill, 512 tokens: 12.0 × transformers (at least 10 ×): met.",
        "prefill, 512 tokens: vLLM was not measured (at least 10 × it).",
    ]
    assert cells_of(result(targets=targets))[-2:] == ["–", "–"]


def test_notes() -> None:
    check = {"what": "start", "value": "2 s", "limit": "under 1 s", "met": False}
    notes = notes_of(report(result(), absent={"vllm": "it is not installed"}, checks=[check]))
    assert notes == [
        "vLLM: not measured (it is not installed).",
        "prefill, 512 tokens: transformers failed (no memory).",
        "~: measured once, as its first sample was far below the best peer's.",
        "start: 2 s (under 1 s): missed.",
    ]


def test_markdown() -> None:
    assert markdown([["x", "1"]], ("", "a")) == "|  | a |\n| --- | ---: |\n| x | 1 |"


@pytest.mark.parametrize("top", [0.0, 0.3, 1.0, 4.99, 5.0, 730.0])
def test_ticks_reach_the_top(top: float) -> None:
    ticks = _ticks(top)
    assert ticks[0] == 0 and ticks[-1] >= top and 2 <= len(ticks) <= 7


def bars(svg: str, kind: str) -> list[float]:
    return [
        float(each.attrib["width"])
        for each in ElementTree.fromstring(svg).iter(f"{SVG}rect")
        if each.get("class") == kind
    ]


def test_a_comparison_is_drawn() -> None:
    met = result(
        ratio_to_best_peer=4.0,
        share_of_ceiling=1.0,
        targets=[{"ratio": 2.5, "against": None, "reached": 4.0, "met": True}],
    )
    nothing = result(ratio_to_best_peer=None, share_of_ceiling=None, targets=[])
    svg = draw(report(result(), met, nothing))
    (missed,), (reached,) = bars(svg, "missed"), bars(svg, "met")
    assert reached == pytest.approx(2 * missed, abs=0.2)
    low, high = bars(svg, "ceiling")
    assert low == pytest.approx(0.514 * high, abs=0.2)
    words = " ".join(each.text or "" for each in ElementTree.fromstring(svg).iter(f"{SVG}text"))
    assert "Fast & <Cheap>" in words and words.count("not measured") == 2
    assert "prefers-color-scheme: dark" in svg


def test_scaling_is_drawn() -> None:
    costs = {"decode_ms": 2.0, "decode_least_ms": 1.0, "prefill_ms": 0.5, "prefill_least_ms": None}
    context = [{"depth": depth, **costs} for depth in (0, 512, 32208)]
    batch = [{"batch": number, **costs} for number in (1, 64)]
    svg = draw_scaling(report(context=context, batch=batch))
    lines = [each.attrib["points"] for each in ElementTree.fromstring(svg).iter(f"{SVG}polyline")]
    assert [len(line.split()) for line in lines] == [3, 3, 3, 0, 2, 2]
    assert "32208" in svg


def test_depths_end_where_the_context_does() -> None:
    assert scaling.fitting((0, 512, 1024), 8192) == [0, 512, 1024]
    assert scaling.fitting((0, 4096, 8192, 16384), 8192) == [0, 4096, 7632]
    assert scaling.fitting((0, 7632, 8192), 8192) == [0, 7632]


def test_a_point_of_scaling() -> None:
    run = {
        "decode_tokens_per_s": 100.0,
        "decode_share_of_ceiling": 0.5,
        "prefill_tokens_per_s": 1000.0,
        "prefill_share_of_ceiling": None,
    }
    assert scaling.point(run, {"depth": 16}) == {
        "depth": 16,
        "decode_ms": 10.0,
        "decode_least_ms": 5.0,
        "prefill_ms": 1.0,
        "prefill_least_ms": None,
    }


def test_what_stands_between_the_markers_is_replaced() -> None:
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = replaced(text, "new")
    assert once == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert replaced(once, "new") == once
    for wrong in ("nothing", f"{END} {BEGIN}", f"{BEGIN}{BEGIN}{END}"):
        with pytest.raises(ValueError, match="once each"):
            replaced(wrong, "new")


def test_the_readme_comes_from_the_newest_complete_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "README.md"
    text.write_text(f"{BEGIN}\n{END}\n")
    options = ["--readme", str(text), "--results", str(tmp_path)]
    (tmp_path / "old-format.json").write_text('{"rows": []}')
    assert readme.main(options) == 1
    assert "no complete results" in capsys.readouterr().err

    def write(name: str, day: str, rate: float, **change: Any) -> None:
        made = report(result(tenfold=rate), date=f"{day}T00:00:00+00:00", **change)
        (tmp_path / f"{name}.json").write_text(json.dumps(made))

    write("a", "2030-01-01", 1111.0)
    write("b", "2030-01-03", 2222.0)
    write("c", "2030-01-04", 3333.0, quick=True)
    write("d", "2030-01-05", 4444.0, complete=False)
    write("e", "2030-01-02", 5555.0, model={"file": "big.gguf", "bytes": 9, "bits_per_weight": 4.5})
    (tmp_path / "b.svg").write_text("<svg/>")
    assert readme.main([*options, "--check"]) == 1
    assert readme.main(options) == 0
    written = text.read_text()
    assert [rate in written for rate in ("1111", "2222", "3333", "4444", "5555")] == [
        False,
        True,
        False,
        False,
        True,
    ]
    assert written.index("2222") < written.index("5555"), "small models first"
    assert "bench/results/b.svg" in written and "e.svg" not in written
    assert readme.main([*options, "--check"]) == 0


def test_the_readme_names_the_kernels_that_rows_used() -> None:
    assert kernels_of(report(result())) == "avx512", "the machine's, if no row says"
    rows = [
        result(entrants=[{**entrant("tenfold", 1.0), "details": [{"isa": isa}, {}]}])
        for isa in ("avx512", "amx")
    ]
    assert kernels_of(report(*rows)) == "amx and avx512"


def test_this_tree_has_the_markers() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert END in replaced(text, "new")
