"""Log probabilities of prompts: what the logits say, the same bits however the prompt is computed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from tenfold import LLM, _native
from tenfold.core.plan import ScheduledChunk, StepPlan
from tenfold.core.request import TokenLogprobs
from tenfold.core.sampling_params import SamplingParams
from tenfold.engine.core import EngineCore
from tests.engine.test_core import engine, request, run
from tests.tiny_models import write_tiny_gguf

PROMPT = tuple(int(token) for token in np.random.default_rng(2).integers(3, 300, 75))
Scores = tuple[TokenLogprobs, ...]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", context=256)


def scores_of(core: EngineCore, name: str = "a", **params: object) -> Scores:
    """Run one request for PROMPT; its prompt's log probabilities."""
    core.add(request(name, PROMPT, **{"prompt_logprobs": 3, **params}))
    found = [output.prompt_logprobs for output in run(core) if output.request_id == name]
    assert found[0] is not None
    assert not any(found[1:])
    return found[0]


@pytest.mark.parametrize("isa", _native.supported_isas())
@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_scores_are_the_logits_log_softmax(tmp_path: Path, architecture: str, isa: str) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", architecture, context=256)
    core = engine(path, isa=isa)
    scores = scores_of(core)
    chunk = ScheduledChunk(0, 0, PROMPT, tuple(range(5)), True)
    logits = core.model.runner.logits(StepPlan(0, (chunk,)), range(len(PROMPT) - 1)).astype(np.float64)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert [entry.token_id for entry in scores] == list(PROMPT[1:])
    np.testing.assert_allclose([e.logprob for e in scores], logs[np.arange(74), PROMPT[1:]], atol=1e-5)
    for entry, row in zip(scores, logs, strict=True):
        best = np.argsort(-row, kind="stable")[:3]
        assert [token for token, _ in entry.top] == best.tolist()
        np.testing.assert_allclose([logprob for _, logprob in entry.top], row[best], atol=1e-5)
        assert entry.rank == np.count_nonzero(row >= row[entry.token_id])


@pytest.mark.parametrize(
    "settings",
    [
        {"max_num_batched_tokens": 16},
        {"max_num_batched_tokens": 37, "max_num_seqs": 1},
        {"threads": 2},
        {"enable_prefix_caching": False, "block_size": 48},
    ],
    ids=str,
)
def test_chunks_threads_and_blocks_change_no_bit(tiny: Path, settings: dict[str, object]) -> None:
    assert scores_of(engine(tiny, **settings)) == scores_of(engine(tiny))


def test_a_cached_prompt_is_computed_again(tiny: Path) -> None:
    core = engine(tiny, max_num_batched_tokens=32)
    core.add(request("warm", PROMPT))
    run(core)
    first = scores_of(core)
    assert first == scores_of(core, "b") == scores_of(engine(tiny))
    core.add(request("plain", PROMPT))
    assert {output.cached_tokens for output in run(core)} == {64}, "what was scored is cached for others"


def test_company_changes_no_bit(tiny: Path) -> None:
    alone = scores_of(engine(tiny))
    core = engine(tiny, max_num_batched_tokens=24)
    for name in ("x", "y"):
        core.add(request(name, (*PROMPT[:40], 9, 9), max_tokens=30, temperature=1.0, seed=4))
    core.step()
    assert scores_of(core) == alone


@pytest.mark.parametrize("other", [40, 75], ids=["blocks stay cached", "blocks are evicted"])
def test_preemption_loses_and_repeats_nothing(tiny: Path, other: int) -> None:
    expected = scores_of(engine(tiny))
    block = 16 * engine(tiny).model.program.kv.bytes_per_token
    core = engine(tiny, max_num_batched_tokens=16, kv_cache_memory_bytes=6 * block)
    core.add(msgspec.structs.replace(request("a", PROMPT, prompt_logprobs=3), priority=1))
    for _ in range(3):
        core.step()
    core.add(request("b", tuple(range(100, 100 + other)), max_tokens=2))
    outputs = run(core)
    assert core.stats().preemptions == 1
    assert [output.prompt_logprobs for output in outputs if output.prompt_logprobs] == [expected]


def test_only_the_first_of_n_completions_has_them(tiny: Path) -> None:
    core = engine(tiny)
    core.add(request("a", PROMPT, n=3, prompt_logprobs=0, temperature=1.0, seed=3))
    outputs = run(core)
    with_scores = [output for output in outputs if output.prompt_logprobs is not None]
    assert [(output.index, output.completion_tokens) for output in with_scores] == [(0, 1)]
    assert all(not entry.top for entry in with_scores[0].prompt_logprobs or ())
    assert {output.cached_tokens for output in outputs if output.index} == {64}


def test_no_output_is_wanted(tiny: Path) -> None:
    core = engine(tiny)
    core.add(request("a", PROMPT, n=2, prompt_logprobs=1, max_tokens=0, logprobs=2))
    outputs = run(core)
    assert len(outputs) == 2
    for output in outputs:
        assert (output.text, output.token_ids, output.completion_tokens) == ("", (), 0)
        assert (output.finish_reason, output.logprobs) == ("length", None)
    assert len(outputs[0].prompt_logprobs or ()) == len(PROMPT) - 1
    core.add(request("b", (5,), prompt_logprobs=1, max_tokens=0))
    assert [output.prompt_logprobs for output in run(core)] == [()]


def test_the_python_api_gives_them(tiny: Path) -> None:
    llm = LLM(str(tiny), threads=1, kv_cache_memory_bytes=4 << 20, max_num_seqs=4)
    params = SamplingParams(temperature=0.0, max_tokens=2, prompt_logprobs=3, ignore_eos=True)
    scored, plain = (
        llm.generate([PROMPT, PROMPT], params),
        llm.generate([PROMPT], SamplingParams(max_tokens=1)),
    )
    expected = list(scores_of(engine(tiny)))
    assert [result.prompt_logprobs for result in scored] == [expected, expected]
    assert plain[0].prompt_logprobs is None
