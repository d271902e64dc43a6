"""lm-evaluation-harness, unchanged, against a server over the real engine and a tiny random model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenfold import LLM, SamplingParams
from tenfold.config.engine import EngineSettings
from tenfold.engine.async_engine import AsyncEngine
from tenfold.engine.model import load_model
from tests.server.running_server import RunningServer
from tests.tiny_models import write_tiny_gguf

pytest.importorskip("lm_eval", reason="lm-eval is not installed")

pytestmark = [pytest.mark.conformance, pytest.mark.filterwarnings("default")]

PAIRS = [
    ("The capital of France is", " Paris"),
    ("2 + 2 =", " 4, or five 🙂"),
    ("naïve café: ", "done"),
    ("", "Once"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf", context=1024)


@pytest.fixture(scope="module")
def url(path: Path) -> Iterator[str]:
    model = load_model(path, EngineSettings(threads=1, kv_cache_memory_bytes=1 << 24))
    with RunningServer(AsyncEngine(model, "tiny")) as server:
        yield f"{server.url}/v1/completions"


def harness(url: str, **options: Any) -> Any:
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    return LocalCompletionsAPI(model="tiny", base_url=url, max_length=1024, **options)


def instances(kind: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
    from lm_eval.api.instance import Instance

    return [Instance(kind, {}, given, number) for number, given in enumerate(arguments)]


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"num_concurrent": 4}], ids=str)
def test_log_likelihoods_are_the_engines(path: Path, url: str, options: dict[str, Any]) -> None:
    lm = harness(url, **options)
    found = lm.loglikelihood(instances("loglikelihood", PAIRS), disable_tqdm=True)
    llm = LLM(str(path), threads=1, kv_cache_memory_bytes=1 << 24)
    for (context, continuation), (logprob, is_greedy) in zip(PAIRS, found, strict=True):
        before, after = lm._encode_pair(context, continuation) if context else ([lm.prefix_token_id], None)
        if after is None:
            after = llm.model.tokenizer.encode(continuation, add_special=False)
        params = SamplingParams(max_tokens=0, prompt_logprobs=1)
        (result,) = llm.generate([[*before, *after]], params)
        entries = (result.prompt_logprobs or [])[-len(after) :]
        assert logprob == pytest.approx(sum(entry.logprob for entry in entries), abs=1e-4)
        assert is_greedy == all(entry.rank == 1 for entry in entries)


def test_texts_are_generated(url: str) -> None:
    asked = [("Tell me", {"until": ["\n\n"], "max_gen_toks": 12})]
    (text,) = harness(url).generate_until(instances("generate_until", asked), disable_tqdm=True)
    assert text


def test_rolling_log_likelihoods(url: str) -> None:
    (logprob,) = harness(url).loglikelihood_rolling(
        instances("loglikelihood_rolling", [("A text of some words. " * 20,)]), disable_tqdm=True
    )
    assert logprob < 0
