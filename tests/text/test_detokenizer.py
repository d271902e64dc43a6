from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from small_vocabularies import byte_level, sentencepiece

from tenfold.text.detokenizer import IncrementalDetokenizer
from tenfold.text.tokenizer import Tokenizer

TOKENIZERS = [byte_level(), sentencepiece(space_prefix=True), sentencepiece(space_prefix=False)]
any_tokenizer = st.sampled_from(TOKENIZERS)


def stream(tokenizer: Tokenizer, ids: list[int], *, skip: bool, at_start: bool) -> str:
    detokenizer = IncrementalDetokenizer(tokenizer, skip, at_start=at_start)
    return "".join([*(detokenizer.push(i) for i in ids), detokenizer.flush()])


@given(any_tokenizer, st.lists(st.integers(0, 270), max_size=25), st.booleans(), st.booleans())
def test_any_ids_stream_to_what_decode_gives(
    tokenizer: Tokenizer, ids: list[int], skip: bool, at_start: bool
) -> None:
    whole = tokenizer.decode(ids, skip_special=skip, at_start=at_start)
    assert stream(tokenizer, ids, skip=skip, at_start=at_start) == whole


@given(any_tokenizer, st.text(max_size=30), st.integers(0, 40))
def test_an_output_continues_its_prompt(tokenizer: Tokenizer, text: str, cut: int) -> None:
    ids = tokenizer.encode(text, parse_special=False)
    cut = min(cut, len(ids))
    data = b"".join(tokenizer.token_bytes(i, skip_special=True) for i in ids[cut:])
    assert stream(tokenizer, ids[cut:], skip=True, at_start=False) == data.decode("utf-8", "replace")


def test_an_unfinished_character_is_held_back() -> None:
    tokenizer = byte_level()
    detokenizer = IncrementalDetokenizer(tokenizer)
    ids = tokenizer.encode("😀")
    assert len(ids) == 3
    assert [detokenizer.push(i) for i in ids] == ["", "", "😀"]
    assert detokenizer.flush() == ""
    assert detokenizer.push(ids[0]) == ""
    assert detokenizer.flush() == "\ufffd"


def test_the_first_space_stays_when_a_prompt_is_continued() -> None:
    tokenizer = sentencepiece(space_prefix=True)
    world = tokenizer.encode("world", add_special=False)
    assert IncrementalDetokenizer(tokenizer).push(world[0]) == " world"
    assert IncrementalDetokenizer(tokenizer, at_start=True).push(world[0]) == "world"


def test_special_tokens_are_left_out_or_named() -> None:
    tokenizer = byte_level()
    assert IncrementalDetokenizer(tokenizer, skip_special=True).push(2) == ""
    assert IncrementalDetokenizer(tokenizer, skip_special=False).push(2) == "<|im_end|>"


def test_a_row_past_the_vocabulary_has_no_text() -> None:
    tokenizer = byte_level()
    assert IncrementalDetokenizer(tokenizer).push(tokenizer.vocab_size) == ""


@given(any_tokenizer, st.lists(st.integers(0, 270), max_size=25), st.sets(st.integers(0, 270), max_size=5))
def test_special_tokens_that_show(tokenizer: Tokenizer, ids: list[int], shown: set[int]) -> None:
    detokenizer = IncrementalDetokenizer(tokenizer, shown_special=shown)
    streamed = "".join([*(detokenizer.push(i) for i in ids), detokenizer.flush()])
    kept = [i for i in ids if i in shown or not tokenizer.is_special(i)]
    assert streamed == tokenizer.decode(kept, skip_special=False, at_start=False)
