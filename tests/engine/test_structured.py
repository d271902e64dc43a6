"""Structured output through the engine: whole texts fit, whatever else a request asks for."""

from __future__ import annotations

import gc
import json
import os
import re
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tenfold.config.engine import EngineSettings
from tenfold.core.errors import InvalidRequestError
from tenfold.core.request import Request, RequestOutput
from tenfold.core.sampling_params import SamplingParams
from tenfold.core.structured_output import StructuredOutput
from tenfold.engine.core import EngineCore
from tenfold.engine.llm import LLM
from tenfold.engine.model import Model, load_model
from tests.grammar.schemas import SCHEMAS
from tests.tiny_models import write_tiny_gguf
from tests.tiny_tokenizer import EOS

# Of the tiny model's texts these end soon enough.
SHORT = (
    "one integer",
    "tuple",
    "around zero",
    "enum with quotes",
    "names in unicode",
    "pattern of a telephone",
    "list of itself",
    "told apart by a constant",
    "forty that may be",
    "deep",
    "five thousand words",
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", context=1024)


@pytest.fixture(scope="module")
def model(tiny: Path) -> Model:
    settings = EngineSettings(threads=1, kv_cache_memory_bytes=8 << 20, max_num_seqs=8)
    return load_model(tiny, settings)


@pytest.fixture
def core(model: Model) -> Iterator[EngineCore]:
    core = EngineCore(model)
    yield core
    core.check()
    assert core.kv.num_free_blocks == core.kv.num_blocks


def request(structured: StructuredOutput | None, name: str = "a", **params: Any) -> Request:
    values: dict[str, Any] = {"seed": 1, "max_tokens": 300, "structured": structured, **params}
    prompt = tuple(name.encode()) * 3
    return Request(request_id=name, prompt_token_ids=prompt, sampling=SamplingParams(**values))


def run(core: EngineCore, *requests: Request) -> dict[tuple[str, int], tuple[str, RequestOutput]]:
    """The text and the last output of each completion."""
    for one in requests:
        core.add(one)
    texts: dict[tuple[str, int], str] = {}
    ends = {}
    while core.has_work():
        for output in core.step():
            key = (output.request_id, output.index)
            texts[key] = texts.get(key, "") + output.text
            if output.finish_reason is not None:
                ends[key] = (texts[key], output)
    return ends


def text_of(core: EngineCore, one: Request) -> tuple[str, RequestOutput]:
    (end,) = run(core, one).values()
    return end


def schema(name: str) -> StructuredOutput:
    return StructuredOutput("json_schema", json.dumps(SCHEMAS[name]))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_schemas_together(core: EngineCore, temperature: float) -> None:
    """All at once, beside free requests; none changes another's text."""
    requests = [request(schema(name), name, temperature=temperature) for name in SHORT]
    free = [request(None, f"free {i}", temperature=temperature, max_tokens=20) for i in range(3)]
    ends = run(core, *requests, *free)
    whole = 0
    for name in SHORT:
        text, end = ends[name, 0]
        assert end.finish_reason in ("stop", "length")
        if end.finish_reason == "stop":
            jsonschema.Draft202012Validator(SCHEMAS[name]).validate(json.loads(text))
            whole += 1
    assert whole >= len(SHORT) * (0.8 if temperature else 0.5)
    for one in (*requests[:3], *free):
        assert text_of(core, one)[0] == ends[one.request_id, 0][0]


def test_the_end_comes_with_the_last_token(core: EngineCore) -> None:
    text, end = text_of(core, request(StructuredOutput("regex", "abc")))
    assert (text, end.finish_reason, end.stop_reason) == ("abc", "stop", None)
    assert end.token_ids != (EOS,), "no step is spent on an end that is known"


def test_completions_follow_the_grammar_apart(core: EngineCore) -> None:
    choices = [f"{i}{i}" for i in range(10)]
    structured = StructuredOutput("choice", json.dumps(choices))
    ends = run(core, request(structured, n=8, temperature=2.0))
    texts = {text for text, _ in ends.values()}
    assert texts <= set(choices)
    assert len(texts) > 1
    assert {end.finish_reason for _, end in ends.values()} == {"stop"}


def test_length_is_said_honestly(core: EngineCore) -> None:
    text, end = text_of(core, request(StructuredOutput("regex", "[ab]{50}"), max_tokens=7))
    assert end.finish_reason == "length"
    assert re.fullmatch("[ab]+", text)
    _, end = text_of(core, request(StructuredOutput("regex", "[ab]{7}"), max_tokens=7))
    assert end.finish_reason == "stop", "it is whole, though it could not have gone on"


def test_logit_bias_and_penalties_choose_among_what_is_allowed(core: EngineCore) -> None:
    (b,) = core.model.tokenizer.encode("b", add_special=False)
    structured = StructuredOutput("regex", "[abc]{6}")
    text, _ = text_of(core, request(structured, logit_bias={b: 100.0}, temperature=0.0))
    assert text == "bbbbbb"
    text, _ = text_of(
        core, request(structured, logit_bias={b: 1.0}, presence_penalty=2.0, repetition_penalty=1.5, top_k=2)
    )
    assert re.fullmatch("[abc]{6}", text)
    text, _ = text_of(core, request(structured, logit_bias={b: -100.0}))
    assert re.fullmatch("[ac]{6}", text)


def test_min_tokens_hold_back_the_end(core: EngineCore) -> None:
    structured = StructuredOutput("regex", "a*")
    bias = {EOS: 100.0}
    text, end = text_of(core, request(structured, logit_bias=bias, min_tokens=5))
    assert (text, end.finish_reason) == ("aaaaa", "stop")
    text, end = text_of(core, request(StructuredOutput("regex", "aa"), min_tokens=5))
    assert (text, end.finish_reason) == ("aa", "stop"), "nothing can follow"


def test_ignored_ends_do_not_come(core: EngineCore) -> None:
    structured = StructuredOutput("regex", "a*")
    text, end = text_of(core, request(structured, logit_bias={EOS: 100.0}, ignore_eos=True, max_tokens=9))
    assert (text, end.finish_reason) == ("a" * 9, "length")


def test_stop_strings_and_stop_tokens_still_stop(core: EngineCore) -> None:
    structured = StructuredOutput("regex", "xyz" * 5)
    text, end = text_of(core, request(structured, stop=("zx",)))
    assert (text, end.finish_reason, end.stop_reason) == ("xy", "stop", "zx")
    (y,) = core.model.tokenizer.encode("y", add_special=False)
    _, end = text_of(core, request(structured, stop_token_ids=(y,)))
    assert (end.finish_reason, end.stop_reason, end.completion_tokens) == ("stop", y, 2)


def test_bans_that_leave_nothing_are_an_error_that_says_so(core: EngineCore) -> None:
    (x,) = core.model.tokenizer.encode("x", add_special=False)
    structured = StructuredOutput("regex", "xy")
    _, end = text_of(core, request(structured, stop_token_ids=(x,), min_tokens=1))
    assert end.finish_reason == "error"
    assert end.error is not None
    assert "ban" in end.error


def test_log_probabilities_are_the_models_own(core: EngineCore) -> None:
    free: list[RequestOutput] = []
    core.add(request(None, temperature=0.0, max_tokens=1, logprobs=5))
    while core.has_work():
        free += core.step()
    core.add(request(StructuredOutput("choice", '["q"]'), temperature=0.0, max_tokens=1, logprobs=5))
    while core.has_work():
        (bound,) = core.step() or [None]
        if bound is not None:
            assert bound.logprobs is not None and free[0].logprobs is not None
            assert bound.logprobs[0].top == free[0].logprobs[0].top
            assert bound.text == "q"


def test_preemption_does_not_disturb(tiny: Path, model: Model) -> None:
    blocks = model.program.kv.bytes_per_token * 16 * 14
    small = EngineCore(
        load_model(
            tiny,
            EngineSettings(
                threads=1, kv_cache_memory_bytes=blocks, max_num_seqs=8, enable_prefix_caching=False
            ),
        )
    )
    structured = StructuredOutput("regex", "([a-z]{3} ){20}")
    requests = [request(structured, name, max_tokens=100) for name in "abcdef"]
    ends = run(small, *requests)
    assert small.stats().preemptions > 0
    small.check()
    for one in requests:
        text, end = ends[one.request_id, 0]
        assert end.finish_reason == "stop"
        assert re.fullmatch("([a-z]{3} ){20}", text)
        assert text == text_of(EngineCore(model), one)[0]


def test_what_cannot_be_compiled_is_refused_and_leaves_nothing(core: EngineCore) -> None:
    with pytest.raises(InvalidRequestError, match="unclosed group"):
        core.add(request(StructuredOutput("regex", "(")))
    assert not core.has_work()


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_aborted_requests_leave_nothing(core: EngineCore, steps: int) -> None:
    before = threading.active_count()
    core.add(request(StructuredOutput("json_object"), n=4, max_tokens=500))
    completions = [weakref.ref(completion) for completion in core._completions.values()]
    for _ in range(steps):
        core.step()
    core.abort("a")
    gc.collect()
    assert not [reference for reference in completions if reference() is not None]
    assert threading.active_count() <= before + 2, "compiling has two threads"


def test_the_python_api(tiny: Path) -> None:
    llm = LLM(str(tiny), threads=1, kv_cache_memory_bytes=4 << 20)
    params = llm.sampling_params(structured=StructuredOutput("choice", '["left", "right"]'), seed=3)
    assert {result.text for result in llm.generate(["go", "turn"], params)} <= {"left", "right"}
    with pytest.raises(InvalidRequestError) as refusal:
        llm.generate("go", llm.sampling_params(structured=StructuredOutput("choice", "[]")))
    assert refusal.value.param == "structured"


MODELS = Path(os.environ.get("TENFOLD_TEST_MODELS", "no folder"))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not list(MODELS.glob("SmolLM2-135M-Instruct*.gguf")), reason="needs SmolLM2")
def test_every_schema_on_a_real_model() -> None:
    llm = LLM(str(next(MODELS.glob("SmolLM2-135M-Instruct*.gguf"))), max_num_seqs=32)
    whole = 0
    for name, value in SCHEMAS.items():
        params = SamplingParams(temperature=1.0, seed=7, n=4, max_tokens=400, structured=schema(name))
        ask = f"Answer with JSON that fits this schema: {json.dumps(value, ensure_ascii=False)[:1500]}"
        (result,) = llm.chat([{"role": "user", "content": ask}], params)
        for output in result.outputs:
            assert output.finish_reason in ("stop", "length"), (name, output)
            if output.finish_reason == "stop":
                jsonschema.Draft202012Validator(value).validate(json.loads(output.text))
                whole += 1
    assert whole > 0.9 * 4 * len(SCHEMAS)
