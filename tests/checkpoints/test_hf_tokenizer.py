"""The tokenizer's source of a Hugging Face folder: ids, special tokens, templates, the bos flag."""

import json

import pytest

from tenfold.checkpoints.huggingface import HuggingFaceCheckpoint
from tenfold.core.errors import CheckpointError
from tests.checkpoints.hf_folder import write_folder, write_json


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "m", "LlamaForCausalLM")


def source(folder):
    return HuggingFaceCheckpoint(folder).tokenizer


def change_tokenizer(folder, **fields):
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_ids_and_special_tokens(folder):
    got = source(folder)
    assert got.tokenizer_json == folder / "tokenizer.json"
    assert got.gguf is None
    assert got.bos_token_id == 1
    assert got.eos_token_ids == (2, 0)  # from config.json, then <|endoftext|> as a special token
    assert got.special == {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    assert got.chat_template is None
    assert not got.add_bos


def test_generation_config_comes_first(folder):
    write_json(folder / "generation_config.json", {"eos_token_id": [7, 2], "bos_token_id": 5})
    assert source(folder).eos_token_ids == (7, 2, 0)
    assert source(folder).bos_token_id == 5


def test_ids_by_the_tokens_texts(folder):
    settings = json.loads((folder / "config.json").read_text())
    del settings["bos_token_id"], settings["eos_token_id"]
    write_json(folder / "config.json", settings)
    assert source(folder).bos_token_id == 1
    assert source(folder).eos_token_ids == (2, 0)


@pytest.mark.parametrize("ids", [300, -1, [1, "a"], 1.5, True, {"a": 1}])
def test_wrong_ids(folder, ids):
    write_json(folder / "generation_config.json", {"eos_token_id": ids})
    with pytest.raises(CheckpointError, match="'eos_token_id' must be token ids below the vocabulary's 300"):
        source(folder)


def test_special_tokens_as_objects_and_in_the_old_map(folder):
    write_json(folder / "tokenizer_config.json", {"bos_token": {"content": "<s>"}, "eos_token": None})
    write_json(folder / "special_tokens_map.json", {"eos_token": "</s>", "pad_token": {"content": "<p>"}})
    assert source(folder).special == {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<p>"}


def test_bos_by_flag_or_post_processor(folder):
    change_tokenizer(
        folder, post_processor={"single": [{"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}]}
    )
    assert source(folder).add_bos
    write_json(folder / "tokenizer_config.json", {"bos_token": "<|im_start|>", "add_bos_token": False})
    assert not source(folder).add_bos
    write_json(folder / "tokenizer_config.json", {"bos_token": "<other>"})
    assert not source(folder).add_bos


def test_chat_templates(folder):
    write_json(folder / "tokenizer_config.json", {"chat_template": "one"})
    assert source(folder).chat_template == "one"
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "two"}]
    write_json(folder / "tokenizer_config.json", {"chat_template": named})
    assert source(folder).chat_template == "two"
    write_json(folder / "chat_template.json", {"chat_template": "three"})
    assert source(folder).chat_template == "three"
    (folder / "chat_template.jinja").write_text("vier ß")
    assert source(folder).chat_template == "vier ß"


def test_wrong_chat_templates(folder):
    write_json(folder / "tokenizer_config.json", {"chat_template": [{"name": "other", "template": "x"}, 5]})
    with pytest.raises(CheckpointError, match='no template named "default"'):
        source(folder)
    write_json(folder / "tokenizer_config.json", {"chat_template": 5})
    with pytest.raises(CheckpointError, match="must be a string"):
        source(folder)
    (folder / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match="not UTF-8"):
        source(folder)
    (folder / "chat_template.jinja").write_bytes(b"x" * (2 << 20))
    with pytest.raises(CheckpointError, match="the limit is 1048576"):
        source(folder)
