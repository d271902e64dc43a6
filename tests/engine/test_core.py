"""EngineCore on a tiny real model: admission, stepping, ends, aborts, failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenfold.config.engine import EngineSettings
from tenfold.core.errors import InvalidRequestError, OverloadedError, TenfoldError
from tenfold.core.request import Request, RequestOutput
from tenfold.core.sampling_params import SamplingParams
from tenfold.engine.core import EngineCore
from tenfold.engine.model import load_model
from tests.tiny_models import write_tiny_gguf


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", context=256)


def engine(path: Path, **settings: object) -> EngineCore:
    defaults: dict[str, object] = {"threads": 1, "kv_cache_memory_bytes": 4 << 20, "max_num_seqs": 4}
    return EngineCore(load_model(path, EngineSettings(**{**defaults, **settings})))  # type: ignore[arg-type]


def request(name: str = "a", prompt: tuple[int, ...] = (5, 6, 7), **params: object) -> Request:
    values: dict[str, object] = {"temperature": 0.0, "max_tokens": 4, "ignore_eos": True, **params}
    return Request(request_id=name, prompt_token_ids=prompt, sampling=SamplingParams(**values))  # type: ignore[arg-type]


def run(core: EngineCore) -> list[RequestOutput]:
    outputs = []
    while core.has_work():
        outputs += core.step()
    core.check()
    return outputs


def test_a_request_runs_to_its_length(tiny: Path) -> None:
    core = engine(tiny)
    core.add(request(max_tokens=5))
    outputs = run(core)
    assert [output.completion_tokens for output in outputs] == [1, 2, 3, 4, 5]
    assert [output.finish_reason for output in outputs] == [None] * 4 + ["length"]
    assert core.stats().generation_tokens == 5
    assert core.stats().num_running == core.stats().num_waiting == 0
    assert core.kv.num_free_blocks == core.kv.num_blocks


def test_outputs_are_stamped_with_when_they_were_queued_and_planned(tiny: Path) -> None:
    model = engine(tiny, max_num_seqs=1).model
    now = [10.0]
    core = EngineCore(model, clock=lambda: now[0])
    core.add(request("a", max_tokens=2))
    now[0] = 11.0
    core.add(request("b", max_tokens=2))
    stamps: dict[str, set[tuple[float | None, float | None]]] = {"a": set(), "b": set()}
    while core.has_work():
        now[0] += 1.0
        for output in core.step():
            stamps[output.request_id].add((output.queued_at, output.scheduled_at))
    assert stamps["a"] == {(10.0, 12.0)}
    ((queued, planned),) = stamps["b"]
    assert queued == 11.0
    assert planned is not None and planned > 12.0
    core.add(request("c"))
    (ended,) = core.abort("c")
    assert (ended.queued_at, ended.scheduled_at) == (now[0], None)
    core.check()


def test_without_max_tokens_the_context_is_the_limit(tiny: Path) -> None:
    core = engine(tiny, max_model_len=32)
    core.add(request(prompt=tuple(range(5, 25)), max_tokens=None))
    last = run(core)[-1]
    assert (last.finish_reason, last.prompt_tokens + last.completion_tokens) == ("length", 32)


def test_stop_token_ends_and_is_named(tiny: Path) -> None:
    core = engine(tiny)
    core.add(request(max_tokens=8))
    tokens = [output.token_ids[0] for output in run(core)]
    core.add(request("b", max_tokens=8, stop_token_ids=(tokens[2],)))
    outputs = run(core)
    first = tokens.index(tokens[2])
    assert outputs[-1].finish_reason == "stop" and outputs[-1].stop_reason == tokens[2]
    assert outputs[-1].completion_tokens == first + 1


def test_min_tokens_bans_the_stop_token(tiny: Path) -> None:
    core = engine(tiny)
    core.add(request(max_tokens=8))
    first = run(core)[0].token_ids[0]
    core.add(request("b", max_tokens=8, min_tokens=6, stop_token_ids=(first,)))
    outputs = run(core)
    assert all(first not in output.token_ids for output in outputs[:6])


def test_n_completions_share_the_prompt_and_differ(tiny: Path) -> None:
    core = engine(tiny)
    prompt = tuple(range(5, 5 + 40))
    core.add(request(prompt=prompt, n=3, temperature=1.5, seed=1, max_tokens=12))
    outputs = run(core)
    texts = {i: [o.token_ids[0] for o in outputs if o.index == i] for i in range(3)}
    assert len({tuple(tokens) for tokens in texts.values()}) == 3
    cached = {o.index: o.cached_tokens for o in outputs}
    assert sorted(cached.values()) == [0, 32, 32], "two of three find the prompt's two full blocks"


def test_the_same_seed_gives_the_same_tokens(tiny: Path) -> None:
    core = engine(tiny)
    runs = []
    for name in ("a", "b"):
        core.add(request(name, temperature=1.3, seed=77, max_tokens=16))
        runs.append([output.token_ids for output in run(core)])
    assert runs[0] == runs[1]


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_abort_in_any_state_frees_everything(tiny: Path, steps: int) -> None:
    core = engine(tiny, max_num_batched_tokens=16)
    core.add(request(prompt=tuple(range(5, 60)), n=2, max_tokens=30))
    core.add(request("b", max_tokens=2))
    for _ in range(steps):
        core.step()
    ended = core.abort("a")
    assert {output.finish_reason for output in ended} <= {"abort"}
    core.check()
    outputs = run(core)
    assert all(output.request_id == "b" for output in outputs)
    assert core.kv.num_free_blocks == core.kv.num_blocks
    assert core.abort("never-seen") == []


@pytest.mark.parametrize(
    ("bad", "param"),
    [
        (request(prompt=()), "prompt"),
        (request(prompt=(-1,)), "prompt"),
        (request(prompt=(10**6,)), "prompt"),
        (request(prompt=tuple([5] * 256)), "prompt"),
        (request(max_tokens=400), "max_tokens"),
        (request(temperature=float("nan")), "temperature"),
        (request(logit_bias={9999: 1.0}), "logit_bias"),
        (request(n=5), "n"),
    ],
)
def test_what_can_never_run_is_refused_at_the_door(tiny: Path, bad: Request, param: str) -> None:
    core = engine(tiny)
    with pytest.raises(InvalidRequestError) as caught:
        core.add(bad)
    assert caught.value.param == param
    assert not core.has_work()


def test_a_prompt_longer_than_the_cache_is_refused(tiny: Path) -> None:
    core = engine(tiny)
    block = core.model.program.kv.bytes_per_token * 16
    small = engine(tiny, kv_cache_memory_bytes=2 * block)
    with pytest.raises(InvalidRequestError, match="limit is 32"):
        small.add(request(prompt=tuple([5] * 40)))


def test_a_full_queue_is_overload_and_harms_nobody(tiny: Path) -> None:
    core = engine(tiny, max_waiting=1, max_num_seqs=1)
    for name in "ab":
        core.add(request(name))
    with pytest.raises(OverloadedError):
        core.add(request("c"))
    assert {output.request_id for output in run(core)} == {"a", "b"}


def test_a_request_id_in_use_is_refused(tiny: Path) -> None:
    core = engine(tiny)
    core.add(request())
    with pytest.raises(InvalidRequestError, match="running already"):
        core.add(request())
    run(core)


def test_reasons_of_the_plan_are_logged(tiny: Path, caplog: pytest.LogCaptureFixture) -> None:
    core = engine(tiny, max_num_batched_tokens=4)
    core.add(request(prompt=tuple(range(5, 15))))
    with caplog.at_level("DEBUG", logger="tenfold.engine.core"):
        core.step()
    assert caplog.messages == [
        "step 0: Sequence 0 is cut short: 4 of 10 tokens, all that is left in this step."
    ]


def test_fail_all_leaves_a_clean_engine(tiny: Path) -> None:
    core = engine(tiny)
    core.add(request(n=2, max_tokens=50))
    core.step()
    outputs = core.fail_all("It broke.")
    assert [(o.finish_reason, o.error) for o in outputs] == [("error", "It broke.")] * 2
    core.check()
    core.add(request("b"))
    assert run(core)[-1].finish_reason == "length"


def test_logprobs_only_when_asked(tiny: Path) -> None:
    core = engine(tiny)
    core.add(request(logprobs=2))
    core.add(request("b"))
    outputs = run(core)
    for output in outputs:
        if output.request_id == "b":
            assert output.logprobs is None
        else:
            assert output.logprobs is not None
            (entry,) = output.logprobs
            assert entry.token_id == output.token_ids[0] == entry.top[0][0]
            assert entry.logprob == entry.top[0][1] <= 0 and len(entry.top) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"block_size": 24}, "multiple of 16"),
        ({"max_model_len": 100_000}, "made for 256"),
        ({"max_num_seqs": 100, "max_num_batched_tokens": 50}, "below max_num_seqs"),
        ({"kv_cache_memory_bytes": 10}, "below one block"),
        ({"threads": 0}, "threads is 0"),
        ({"isa": "mmx"}, "not available on this CPU"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tiny: Path, settings: dict[str, object], words: str) -> None:
    with pytest.raises(TenfoldError, match=words):
        engine(tiny, **settings)
