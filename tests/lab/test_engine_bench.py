from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tenfold.config.engine import EngineSettings
from tenfold.core.errors import TenfoldError
from tenfold.engine.model import load_model
from tenfold.kernels.isa import choose_isa
from tenfold.lab.engine_bench import EngineBench, EngineBenchSettings, bench_engine
from tests.tiny_models import write_tiny_gguf

SMALL = EngineBenchSettings(
    prompt_len=20, output_len=6, batch=3, threads=1, repeat=2, max_num_batched_tokens=32, ceiling_seconds=0
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("bench") / "tiny.gguf", context=256)


@pytest.mark.parametrize("depth", [0, 70])
def test_the_passes_measure_what_they_say(tiny: Path, depth: int) -> None:
    report = bench_engine(tiny, msgspec.structs.replace(SMALL, depth=depth))
    assert report.depth == (64 if depth else 0)
    assert len(report.repeats) == 2
    for each in report.repeats:
        assert each.prefill.tokens == 60 and each.prefill.steps == 2
        assert len(each.prefill.latencies_ms) == 3
        assert each.decode is not None
        assert each.decode.steps == 5 and each.decode.tokens == 15 and len(each.decode.latencies_ms) == 5
        assert each.decode.kernel_seconds <= each.decode.seconds
        assert each.decode.share_of_ceiling is None
    rates = sorted(each.prefill.tokens_per_s for each in report.repeats)
    assert report.prefill_tokens_per_s == pytest.approx(sum(rates) / 2)
    assert report.ttft_ms.count == 6 and report.itl_ms is not None and report.itl_ms.count == 10


def test_shares_of_the_ceiling(tiny: Path) -> None:
    settings = msgspec.structs.replace(SMALL, repeat=1, ceiling_seconds=0.01)
    report = bench_engine(tiny, settings)
    assert report.ceilings is not None
    only = report.repeats[0]
    assert only.decode is not None and only.decode.ceiling_seconds is not None
    assert report.decode_share_of_ceiling == pytest.approx(only.decode.ceiling_seconds / only.decode.seconds)
    least = report.weight_bytes / (report.ceilings.memory_read_gbs * 1e9)
    assert only.decode.ceiling_seconds > 0.5 * only.decode.steps * least
    assert report.prefill_share_of_ceiling is not None and report.prefill_share_of_ceiling > 0


def test_one_output_token_measures_prefill_alone(tiny: Path) -> None:
    report = bench_engine(tiny, msgspec.structs.replace(SMALL, output_len=1, repeat=1))
    assert report.decode_tokens_per_s is None and report.itl_ms is None
    assert report.repeats[0].decode is None
    assert report.prefill_tokens_per_s > 0
    assert report.isa == choose_isa()[0]


def test_decode_takes_the_kernels_for_its_batch(tiny: Path) -> None:
    assert bench_engine(tiny, SMALL).isa == choose_isa(None, SMALL.batch)[0]


def test_the_whole_context_can_be_used(tiny: Path) -> None:
    settings = msgspec.structs.replace(SMALL, depth=192, prompt_len=48, output_len=16, batch=2, repeat=3)
    report = bench_engine(tiny, settings)
    assert all(each.decode is not None and each.decode.steps > 0 for each in report.repeats)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"prompt_len": 0}, "prompt_len is 0; it must be at least 1"),
        ({"depth": -1}, "depth is -1"),
        ({"depth": 240}, "more than the model's context of 256"),
        ({"batch": 10, "max_num_batched_tokens": 4}, "max_num_batched_tokens is 4"),
    ],
)
def test_what_cannot_be_measured(tiny: Path, change: dict[str, int], sentence: str) -> None:
    with pytest.raises(TenfoldError, match=sentence):
        bench_engine(tiny, msgspec.structs.replace(SMALL, **change))


def test_a_cache_too_small_for_the_depth_is_noticed(tiny: Path) -> None:
    settings = msgspec.structs.replace(SMALL, depth=64)
    engine = EngineSettings(
        threads=1, max_num_seqs=3, max_num_batched_tokens=32, kv_cache_memory_bytes=14 * 16 * 512
    )
    model = load_model(tiny, engine)
    assert model.num_blocks < 3 * (4 + 2)
    with pytest.raises(TenfoldError, match="in the cache where 64 were meant"):
        EngineBench(model, settings).run(lambda label, done, total: None)


def test_progress_ends_where_it_said(tiny: Path) -> None:
    calls: list[tuple[str, int, int]] = []
    bench_engine(tiny, SMALL, lambda label, done, total: calls.append((label, done, total)))
    labels = [label for label, _, _ in calls]
    assert labels.index("Warming up") < labels.index("Prefill 1 of 2") < labels.index("Decode 2 of 2")
    assert calls[-1][1] == calls[-1][2]
