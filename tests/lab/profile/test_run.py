from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tenfold.core.errors import TenfoldError
from tenfold.kernels.isa import choose_isa
from tenfold.lab.profile.phase import PhaseRunner
from tenfold.lab.profile.run import load_for, profile_model
from tests.lab.profile.conftest import SMALL


def test_steps_are_those_of_the_phase_at_its_depth(tiny: Path) -> None:
    model, _ = load_for(tiny, SMALL, lambda label, done, total: None)
    runner = PhaseRunner(model, SMALL)
    prefill = runner.run("prefill")
    starts = {chunk.start for step in prefill.steps for chunk in step}
    assert min(starts) == 32, "the depth is shared in full blocks of 16"
    assert sum(chunk.count for step in prefill.steps for chunk in step) == 3 * 3 * 40
    before = list(prefill.steps)
    decode = runner.run("decode")
    assert list(prefill.steps) == before, "a later phase leaves an earlier one alone"
    for number, step in enumerate(decode.steps):
        assert len(step) == 3 and all(chunk.count == 1 and chunk.sample for chunk in step)
        assert min(chunk.start for chunk in step) >= 37 + number
    assert decode.native["steps"] == 6
    assert model.runner.native.step_times()["steps"] == 0, "the clocks are off again"


@pytest.mark.parametrize(("phases", "sequences"), [(("prefill",), 64), (("prefill", "decode"), 1)])
def test_kernels_are_those_of_a_server_for_prefill_alone(
    tiny: Path, phases: tuple[str, ...], sequences: int
) -> None:
    settings = msgspec.structs.replace(SMALL, phases=phases, batch=1)
    model, _ = load_for(tiny, settings, lambda label, done, total: None)
    assert model.runner.native.isa == choose_isa(None, sequences)[0]


def test_time_bounds_the_steps_when_no_number_is_given(tiny: Path) -> None:
    settings = msgspec.structs.replace(SMALL, steps=None, seconds=0.02)
    report = profile_model(tiny, settings)
    assert all(1 <= phase.steps <= 256 for phase in report.phases)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"phases": ("train",)}, "The phases are prefill, decode; train given"),
        ({"steps": 0}, "steps is 0; it must be at least 1"),
        ({"depth": 250}, "more than the model's context of 256"),
        ({"batch": 10, "max_num_batched_tokens": 4, "depth": 0, "steps": 1}, "max_num_batched_tokens is 4"),
    ],
)
def test_what_cannot_be_profiled(tiny: Path, change: dict[str, object], sentence: str) -> None:
    with pytest.raises(TenfoldError, match=sentence):
        profile_model(tiny, msgspec.structs.replace(SMALL, **change))
