from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_vocabularies import byte_level, byte_level_metadata, sentencepiece

from tenfold.core.errors import InvalidRequestError
from tenfold.text import tokenizer as module
from tenfold.text.tokenizer import Tokenizer

TOKENIZERS = [byte_level(), sentencepiece(space_prefix=True), sentencepiece(space_prefix=False)]
any_tokenizer = st.sampled_from(TOKENIZERS)


def without_marks(text: str) -> str:
    return text.replace("\u2581", " ")


@given(any_tokenizer, st.text(max_size=60))
def test_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    expected = text if tokenizer is TOKENIZERS[0] else without_marks(text)
    assert tokenizer.decode(tokenizer.encode(text)) == expected


@given(any_tokenizer, st.lists(st.sampled_from(["<|im_end|>", "<s>", "</s>", "<unk>", "hello", " ", "x"])))
def test_special_words_in_plain_text_are_no_special_tokens(tokenizer: Tokenizer, words: list[str]) -> None:
    text = "".join(words)
    ids = tokenizer.encode(text, add_special=False, parse_special=False)
    assert not any(tokenizer.is_special(i) for i in ids)
    assert tokenizer.decode(ids, skip_special=False) == text


def test_special_words_are_tokens_when_parsed() -> None:
    tokenizer = byte_level()
    ids = tokenizer.encode("<|im_start|>hello<|im_end|>")
    assert ids[0] == 1
    assert ids[-1] == 2
    assert tokenizer.decode(ids) == "hello"
    assert tokenizer.decode(ids, skip_special=False) == "<|im_start|>hello<|im_end|>"


def test_user_defined_tokens_are_matched_either_way() -> None:
    tokenizer = byte_level()
    assert tokenizer.encode("<tool>") == tokenizer.encode("<tool>", parse_special=False) == [3]
    assert not tokenizer.is_special(3)


def test_bos_goes_in_front_if_the_model_wants_it() -> None:
    assert sentencepiece().encode("a")[0] == 1
    assert sentencepiece().encode("a", add_special=False)[0] != 1
    assert byte_level().encode("a")[0] != 1


def test_tokens_tell_their_bytes_and_texts() -> None:
    tokenizer = byte_level()
    (token,) = tokenizer.encode("hello")
    assert tokenizer.token_bytes(token) == b"hello"
    assert tokenizer.token_text(token) == "hello"
    assert tokenizer.token_bytes(2) == b"<|im_end|>"
    assert tokenizer.token_bytes(2, skip_special=True) == b""
    first, second = tokenizer.encode("文")[:2]
    assert tokenizer.token_bytes(first) == "文".encode()[:1]
    assert tokenizer.token_text(second) == "\ufffd"
    pieces = sentencepiece()
    assert pieces.token_bytes(3 + 0x0A) == b"\n"
    assert pieces.token_text(pieces.encode("world")[1]) == " world"


@pytest.mark.parametrize("token_id", [-1, 10**6, 2**70])
def test_ids_outside_the_vocabulary_are_refused(tokenizer: Tokenizer, token_id: int) -> None:
    for use in (tokenizer.token_bytes, tokenizer.is_special, tokenizer.token_text):
        with pytest.raises(InvalidRequestError, match=f"token {token_id} does not exist"):
            use(token_id)
    with pytest.raises(InvalidRequestError, match="vocabulary's size"):
        tokenizer.decode([3, token_id])


@pytest.mark.parametrize("text", ["\ud800", "ok \udfff", "😀\ud83d"])
def test_lone_surrogates_are_refused(tokenizer: Tokenizer, text: str) -> None:
    with pytest.raises(InvalidRequestError, match="lone surrogate, U\\+D"):
        tokenizer.encode(text)


def test_sections_change_no_id(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "hello world  abc é\n <|im_end|> hello hello s t 文 12 world. </s> o w a b\n" * 20
    whole = tokenizer.encode(text)
    monkeypatch.setattr(module, "SECTION_CHARS", 40)
    assert tokenizer.encode(text) == whole


def test_a_text_without_words_is_cut(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECTION_CHARS", 16)
    text = "hello" * 100
    assert tokenizer.decode(tokenizer.encode(text)).replace(" ", "") == text


@pytest.mark.parametrize("unit", ["hello world ", "a", " ", "文", "😀é "])
def test_a_great_text_is_refused_early(tokenizer: Tokenizer, unit: str) -> None:
    text = unit * (10_000_000 // len(unit))
    start = time.monotonic()
    with pytest.raises(InvalidRequestError, match="more than 1000 tokens") as caught:
        tokenizer.encode(text, max_tokens=1000)
    assert caught.value.code == "context_length_exceeded"
    assert time.monotonic() - start < 5


def test_max_tokens_is_inclusive() -> None:
    tokenizer = byte_level()
    assert len(tokenizer.encode("hello world", max_tokens=2)) == 2
    with pytest.raises(InvalidRequestError):
        tokenizer.encode("hello world", max_tokens=1)


def test_a_saved_tokenizer_json_gives_the_same_ids(tmp_path: Path) -> None:
    from tokenizers import decoders

    original = byte_level()
    original._full.decoder = decoders.ByteLevel()
    path = tmp_path / "tokenizer.json"
    path.write_text(original._full.to_str())
    loaded = Tokenizer.from_file(path, bos_id=1, eos_ids=(2,))
    text = "hello world é<|im_end|> <tool> 文12\n"
    for parse in (True, False):
        ids = original.encode(text, parse_special=parse)
        assert loaded.encode(text, parse_special=parse) == ids
        assert loaded.decode(ids, skip_special=False) == text
    assert loaded.vocab_size == original.vocab_size
    assert [loaded.token_bytes(i) for i in range(260)] == [original.token_bytes(i) for i in range(260)]
    assert loaded.special_texts == ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def test_end_tokens_count_as_special_even_if_the_file_forgets() -> None:
    metadata = byte_level_metadata()
    metadata["tokenizer.ggml.token_type"] = [1] * len(metadata["tokenizer.ggml.tokens"])
    tokenizer = Tokenizer.from_gguf(metadata, eos_ids=(2,))
    assert tokenizer.is_special(2)
    assert tokenizer.decode([2]) == ""
