from __future__ import annotations

import pytest

from bench.scenarios import MODELS, ROWS, TARGETS, find_rows, ready_limit, targets_of


def test_rows_by_name() -> None:
    assert find_rows(None) == ROWS
    assert [row.name for row in find_rows(["pp512"])] == ["pp512"]
    with pytest.raises(ValueError, match="no row 'x'; there are tg128"):
        find_rows(["x"])
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_quick_rows_are_an_eighth_under_another_name() -> None:
    quick = {row.name: row for row in find_rows(None, quick=True)}
    assert quick["pp512-quick"].tokens == 64
    assert (quick["tg-d4096-quick"].tokens, quick["tg-d4096-quick"].depth) == (16, 512)
    assert (quick["tg-b32-quick"].batch, quick["http16-quick"].requests) == (32, 16)
    assert not any(targets_of("SmolLM2-135M.gguf", name) for name in quick), (
        "their rates say nothing of a target"
    )


def test_every_row_has_a_target_for_each_model() -> None:
    assert len(TARGETS) == len(MODELS)
    for begin in TARGETS:
        file = f"{begin.lower()}-instruct-q4_k_m.gguf"
        assert all(targets_of(file, row.name) for row in ROWS)
        assert ready_limit(file) is not None
    (first, second) = targets_of("SmolLM2-135M-Instruct.Q4_1.gguf", "tg128")
    assert (first.ratio, first.against, second.ratio, second.against) == (1.5, None, 10.0, "transformers")


def test_other_models_have_no_targets() -> None:
    assert targets_of("gemma-3-270m.gguf", "tg128") == ()
    assert ready_limit("gemma-3-270m.gguf") is None
