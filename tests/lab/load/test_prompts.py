from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tenfold.core.errors import TenfoldError
from tenfold.lab.load.prompts import Prompt, make_prompts, request_body
from tenfold.lab.load.settings import LoadSettings

SETTINGS = LoadSettings(url="http://127.0.0.1:1", concurrency=1, num_requests=5, prompt_len=12, output_len=9)


def test_random_prompts_depend_on_the_seed_alone() -> None:
    prompts = make_prompts(SETTINGS)
    texts = [prompt.prompt or "" for prompt in prompts]
    assert [len(text.split()) for text in texts] == [12] * 5
    assert len(set(texts)) == 5
    assert make_prompts(SETTINGS) == prompts
    assert make_prompts(msgspec.structs.replace(SETTINGS, seed=1)) != prompts


def test_a_dataset_is_repeated_to_the_number_of_requests(tmp_path: Path) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text('{"prompt": "a", "extra": 1}\n\n{"messages": [{"role": "user"}], "max_tokens": 3}\n')
    prompts = make_prompts(msgspec.structs.replace(SETTINGS, dataset=file))
    assert [prompt.prompt for prompt in prompts] == ["a", None, "a", None, "a"]
    assert prompts[1].max_tokens == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no lines"),
        ("{}", "line 1, must have"),
        ('{"prompt": "a"}\n{"prompt": 3}', "line 2, cannot be used"),
        ('{"messages": []}', "use --endpoint chat"),
    ],
)
def test_bad_datasets(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "set.jsonl"
    file.write_text(text)
    with pytest.raises(TenfoldError, match=sentence):
        make_prompts(msgspec.structs.replace(SETTINGS, dataset=file, endpoint="completions"))


def test_a_missing_dataset(tmp_path: Path) -> None:
    with pytest.raises(TenfoldError, match="cannot be read"):
        make_prompts(msgspec.structs.replace(SETTINGS, dataset=tmp_path / "none.jsonl"))


def test_bodies() -> None:
    chat = json.loads(request_body(Prompt(prompt="hi"), SETTINGS, "m"))
    assert chat["messages"] == [{"role": "user", "content": "hi"}]
    assert chat["stream_options"] == {"include_usage": True}
    assert chat["max_tokens"] == 9 and chat["ignore_eos"] is True and chat["model"] == "m"
    settings = msgspec.structs.replace(SETTINGS, endpoint="completions", ignore_eos=False)
    completion = json.loads(request_body(Prompt(prompt="hi", max_tokens=2), settings, "m"))
    assert completion["prompt"] == "hi" and completion["max_tokens"] == 2
    assert "ignore_eos" not in completion and "messages" not in completion


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"endpoint": "embeddings"}, "choose chat or completions"),
        ({"request_rate": 2.0}, "either a concurrency or a request rate"),
        ({"concurrency": None}, "either a concurrency or a request rate"),
        ({"num_requests": 0}, "num_requests is 0"),
        ({"timeout": 0.0}, "timeout is 0.0"),
    ],
)
def test_settings_that_make_no_load(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(TenfoldError, match=sentence):
        msgspec.structs.replace(SETTINGS, **change).check()
