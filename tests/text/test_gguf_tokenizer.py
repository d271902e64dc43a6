from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from small_vocabularies import byte_level, byte_level_metadata, sentencepiece, sentencepiece_metadata

from tenfold.checkpoints.gguf import GgufCheckpoint
from tenfold.core.errors import CheckpointError, UnsupportedModelError
from tenfold.text.pretokenizers import RULES
from tenfold.text.tokenizer import Tokenizer

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())


def real_tokenizer(name: str) -> Tokenizer:
    folder = os.environ.get("TENFOLD_TEST_MODELS")
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"{name} is not in TENFOLD_TEST_MODELS")
    source = GgufCheckpoint(Path(folder) / name).tokenizer
    assert source.gguf is not None
    return Tokenizer.from_gguf(source.gguf, bos_id=source.bos_token_id, eos_ids=source.eos_token_ids)


@pytest.mark.parametrize("name", sorted(GOLDEN["ids"]))
def test_real_vocabularies_give_the_golden_ids(name: str) -> None:
    """Ids by llama.cpp's tokenizer, but for two texts: Qwen's composed to NFC, as its own tokenizer does, and
    Gemma's with U+2581 in the text, by SentencePiece."""
    tokenizer = real_tokenizer(name)
    for text, expected in zip(GOLDEN["texts"], GOLDEN["ids"][name], strict=True):
        assert tokenizer.encode(text, add_special=False) == expected, text
        plain = tokenizer.encode(text, add_special=False, parse_special=False)
        assert not any(tokenizer.is_special(i) for i in plain)


@pytest.mark.parametrize("pre", sorted(RULES))
@pytest.mark.parametrize("text", ["hello  world", "I'LL 12345 e=mc²\r\n\n x", "éa文字😀 \t\u3000ok"])
def test_every_splitting_rule_keeps_the_text(pre: str, text: str) -> None:
    tokenizer = byte_level(pre)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_digits_are_split_for_smollm_and_grouped_for_llama3() -> None:
    twelve = byte_level("llama-bpe").encode("12")
    assert len(twelve) == 1
    assert len(byte_level("smollm").encode("12")) == 2
    assert len(byte_level("qwen2").encode("12")) == 2
    assert len(byte_level("gpt-2").encode("12")) == 1


def test_qwen2_composes_unicode() -> None:
    assert byte_level("qwen2").encode("e\u0301") == byte_level("qwen2").encode("é")
    assert byte_level("smollm").encode("e\u0301") != byte_level("smollm").encode("é")


def test_llama3_takes_whole_words_without_merging() -> None:
    metadata = byte_level_metadata("llama-bpe")
    metadata["tokenizer.ggml.tokens"] = [*metadata["tokenizer.ggml.tokens"], "zzz"]
    metadata["tokenizer.ggml.token_type"] = [*metadata["tokenizer.ggml.token_type"], 1]
    tokenizer = Tokenizer.from_gguf(metadata)
    assert tokenizer.encode("zzz") == [tokenizer.vocab_size - 1]
    metadata["tokenizer.ggml.pre"] = "gpt-2"
    assert len(Tokenizer.from_gguf(metadata).encode("zzz")) == 3


def test_sentencepiece_joins_by_score() -> None:
    tokenizer = sentencepiece(space_prefix=False)
    assert [tokenizer.token_text(i) for i in tokenizer.encode("hello world", add_special=False)] == [
        "hello",
        " world",
    ]
    assert [tokenizer.token_text(i) for i in tokenizer.encode("abc", add_special=False)] == ["a", "b", "c"]
    assert [tokenizer.token_text(i) for i in tokenizer.encode("s tell", add_special=False)] == [
        "s",
        " ",
        "t",
        "e",
        "ll",
    ]


def test_sentencepiece_falls_back_to_bytes_and_marks_spaces() -> None:
    tokenizer = sentencepiece(space_prefix=True)
    assert tokenizer.encode("Z", add_special=False)[1] == 3 + ord("Z")
    assert tokenizer.decode(tokenizer.encode(" a")) == " a"
    assert tokenizer.encode("a \u2581b") == tokenizer.encode("a  b")


def test_unknown_kinds_are_named_with_the_supported_ones() -> None:
    with pytest.raises(UnsupportedModelError, match=r"'galaxy'.*gpt-2.*smollm"):
        byte_level("galaxy")
    with pytest.raises(UnsupportedModelError, match=r"'rwkv'.*'gpt2'.*'llama'"):
        Tokenizer.from_gguf({**byte_level_metadata(), "tokenizer.ggml.model": "rwkv"}, file="m.gguf")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tokenizer.ggml.model", None),
        ("tokenizer.ggml.model", 3),
        ("tokenizer.ggml.tokens", None),
        ("tokenizer.ggml.tokens", []),
        ("tokenizer.ggml.tokens", "text"),
        ("tokenizer.ggml.tokens", 7),
        ("tokenizer.ggml.tokens", ["a", b"b"]),
        ("tokenizer.ggml.token_type", [1]),
        ("tokenizer.ggml.token_type", ["x"] * 273),
        ("tokenizer.ggml.merges", None),
        ("tokenizer.ggml.merges", ["a"]),
        ("tokenizer.ggml.merges", ["a b c"]),
        ("tokenizer.ggml.merges", ["nowhere there"]),
        ("tokenizer.ggml.pre", 1.5),
    ],
)
def test_damaged_byte_level_metadata_is_refused(key: str, value: object) -> None:
    metadata = byte_level_metadata()
    metadata[key] = value
    if value is None:
        del metadata[key]
    with pytest.raises(CheckpointError, match=r"m\.gguf, tensor 'tokenizer\.ggml"):
        Tokenizer.from_gguf(metadata, file="m.gguf")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tokenizer.ggml.scores", [1.0]),
        ("tokenizer.ggml.scores", ["x"]),
        ("tokenizer.ggml.unknown_token_id", 10**9),
        ("tokenizer.ggml.add_space_prefix", "yes"),
    ],
)
def test_damaged_sentencepiece_metadata_is_refused(key: str, value: object) -> None:
    metadata = {**sentencepiece_metadata(space_prefix=True), key: value}
    with pytest.raises(CheckpointError, match=r"tokenizer\.ggml"):
        Tokenizer.from_gguf(metadata)
