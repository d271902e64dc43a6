"""The Python API."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenfold import LLM, SamplingParams
from tenfold.core.errors import InvalidRequestError, TenfoldError
from tests.tiny_models import write_tiny_gguf

GREEDY = SamplingParams(temperature=0.0, max_tokens=6, ignore_eos=True)


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> LLM:
    path = write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf")
    return LLM(str(path), threads=1, kv_cache_memory_bytes=4 << 20)


def test_generate_keeps_order_and_matches_solo_runs(llm: LLM) -> None:
    prompts = ["one", "two and more", [5, 6, 7]]
    together = llm.generate(prompts, GREEDY)  # type: ignore[arg-type]
    assert [len(result.outputs[0].token_ids) for result in together] == [6, 6, 6]
    assert together[2].prompt_token_ids == (5, 6, 7)
    alone = [llm.generate([prompt], GREEDY)[0] for prompt in prompts]  # type: ignore[list-item]
    assert [a.outputs[0].token_ids for a in alone] == [t.outputs[0].token_ids for t in together]


def test_generate_gives_n_outputs_with_logprobs(llm: LLM) -> None:
    params = SamplingParams(n=2, seed=1, max_tokens=3, ignore_eos=True, logprobs=1)
    (result,) = llm.generate("x", params)
    assert [output.index for output in result.outputs] == [0, 1]
    assert all(len(output.logprobs or ()) == 3 for output in result.outputs)
    assert result.text == result.outputs[0].text


def test_chat_goes_through_the_template(llm: LLM) -> None:
    (result,) = llm.chat([{"role": "user", "content": "hi"}], GREEDY)
    assert len(result.prompt_token_ids) > len(llm.model.tokenizer.encode("hi"))
    pair = llm.chat([[{"role": "user", "content": "hi"}], [{"role": "user", "content": "ho"}]], GREEDY)
    assert pair[0].outputs[0].token_ids == result.outputs[0].token_ids


def test_stream_equals_generate_and_can_be_left(llm: LLM) -> None:
    async def main() -> None:
        tokens = [token async for output in llm.stream("one", GREEDY) for token in output.token_ids]
        assert tokens == llm.generate("one", GREEDY)[0].outputs[0].token_ids
        stream = llm.stream("one", SamplingParams(max_tokens=1000, ignore_eos=True))
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        both = await asyncio.gather(collect("one"), collect("two"))
        assert both[0] == tokens

    async def collect(prompt: str) -> list[int]:
        return [token async for output in llm.stream(prompt, GREEDY) for token in output.token_ids]

    asyncio.run(main())
    assert not llm._core.has_work()
    llm._core.check()


def test_a_bad_prompt_leaves_nothing_behind(llm: LLM) -> None:
    with pytest.raises(InvalidRequestError):
        llm.generate([[5], []], GREEDY)
    assert not llm._core.has_work()


@pytest.mark.parametrize(
    "prompts",
    [None, 5, [1, 2, 3], b"abc", [b"abc"], [[1.5]], [["a"]], [[[1]]], "", [[]], [[-1]], [[10**30]], "\ud800"],
)
def test_what_is_no_prompt_is_refused(llm: LLM, prompts: object) -> None:
    with pytest.raises(InvalidRequestError):
        llm.generate(prompts, GREEDY)  # type: ignore[arg-type]
    llm._core.check()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("n", "a"), ("n", True), ("temperature", "x"), ("temperature", None), ("stop", (1,)), ("stop", 5)),
        *(("logit_bias", [1]), ("logit_bias", {"1": 1.0}), ("seed", 1.5), ("seed", "x"), ("max_tokens", 2.5)),
        *(("top_k", 1.5), ("stop_token_ids", ("a",)), ("logprobs", True), ("ignore_eos", "yes")),
    ],
)
def test_parameters_of_a_wrong_type_are_refused_and_harm_nobody(llm: LLM, name: str, value: object) -> None:
    with pytest.raises(InvalidRequestError) as refusal:
        llm.generate("x", SamplingParams(**{name: value}))  # type: ignore[arg-type]
    assert (refusal.value.param or "").startswith(name)
    llm._core.check()
    assert len(llm.generate("x", GREEDY)[0].outputs[0].token_ids) == 6


def test_what_are_no_parameters(llm: LLM) -> None:
    with pytest.raises(InvalidRequestError, match="must be SamplingParams"):
        llm.generate("x", {"temperature": 0})  # type: ignore[arg-type]


def test_a_stop_string_and_lists_are_taken() -> None:
    params = SamplingParams(stop="end", stop_token_ids=[3])  # type: ignore[arg-type]
    assert params == SamplingParams(stop=("end",), stop_token_ids=(3,))
    assert SamplingParams(stop=["a", "b"]).stop == ("a", "b")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [1.5, "two", True])
def test_settings_of_a_wrong_type(tmp_path: Path, value: object) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    with pytest.raises(TenfoldError, match=r"threads"):
        LLM(str(path), threads=value)


def test_a_request_that_fails_on_its_way_in_leaves_nothing(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no completion")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr("tenfold.engine.core.Completion", broken)
        llm.generate("x", GREEDY)
    llm._core.check()
    assert not llm._core.has_work()
    assert len(llm.generate("x", GREEDY)[0].outputs[0].token_ids) == 6


def test_a_forked_process_is_told_to_load_again(tmp_path: Path) -> None:
    # In a process of its own: this one has threads, and forking those is what the test is not about.
    script = (
        "import os, sys; from tenfold import LLM; from tenfold.core.errors import EngineError\n"
        "llm = LLM(sys.argv[1], threads=2, kv_cache_memory_bytes=1 << 20); llm.generate('x')\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    try: llm.generate('x')\n"
        "    except EngineError as error: os._exit(7 if 'load it again' in str(error) else 8)\n"
        "    os._exit(9)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    path = write_tiny_gguf(tmp_path / "tiny.gguf", context=64)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", script, str(path)], env=environment, timeout=30, check=False
    )
    assert ended.returncode == 7
