"""The vocabulary as llguidance sees it."""

from __future__ import annotations

from pathlib import Path

from tenfold.core.structured_output import StructuredOutput
from tenfold.grammar.grammars import Grammars
from tenfold.grammar.vocabulary import Vocabulary, llguidance_tokenizer
from tenfold.text.tokenizer import Tokenizer
from tests import tiny_tokenizer
from tests.grammar.walks import allowed
from tests.text.small_vocabularies import byte_level, sentencepiece


def test_tokens_have_their_bytes(tokenizer: Tokenizer) -> None:
    vocabulary = Vocabulary(tokenizer, 320)
    assert len(vocabulary.tokens) == 320
    known = tokenizer.vocab_size
    assert vocabulary.tokens[known:] == [b""] * (320 - known)
    for token in range(known):
        data = tokenizer.token_bytes(token)
        assert vocabulary.tokens[token] == (b"" if data == b"\xff" else data)
    assert vocabulary.special_token_ids == [0, 1, 2]
    assert vocabulary(b"the") == tokenizer.encode("the", add_special=False)
    made = llguidance_tokenizer(tokenizer, 320)
    assert (made.vocab_size, made.eos_tokens) == (320, [tiny_tokenizer.EOS])


def test_forced_text_is_tokenized_as_usual(tokenizer: Tokenizer) -> None:
    for one in (tokenizer, sentencepiece(space_prefix=True), sentencepiece(space_prefix=False), byte_level()):
        vocabulary = Vocabulary(one, one.vocab_size)
        for text in ("hello world", " hello", "the world ", "", "\n\n", "é文🙂", "hello " * 200, "文" * 300):
            ids = vocabulary(text.encode())
            assert b"".join(map(one.token_bytes, ids)) == text.encode()
        assert len(vocabulary(b"hello world")) < len("hello world")
    (hello,) = vocabulary(b"hello")
    assert vocabulary(b"hello" * 1000)[0] == hello


def test_forced_text_in_the_middle_has_no_space_put_in_front() -> None:
    one = sentencepiece(space_prefix=True)
    matcher = Grammars(one, one.vocab_size).get(StructuredOutput("regex", "(a|b)hello")).matcher()
    (a,) = [token for token in allowed(matcher) if one.token_bytes(token) == b"a"][:1]
    matcher.take(a)
    assert {one.token_bytes(token) for token in allowed(matcher)} == {b"hello"}


def test_several_end_tokens_and_none(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(tiny_tokenizer.tokenizer_json(300))
    (x,) = Tokenizer.from_file(path).encode("x", add_special=False)
    for ends in ((2, 0), ()):
        grammars = Grammars(Tokenizer.from_file(path, eos_ids=ends), 300)
        matcher = grammars.get(StructuredOutput("regex", "x?")).matcher()
        assert len(matcher.mask()) == 10
        assert {token for token in allowed(matcher) if token < 300} == {x, *ends}


def test_logits_narrower_than_the_vocabulary(tokenizer: Tokenizer) -> None:
    matcher = Grammars(tokenizer, 270).get(StructuredOutput("regex", "(?s:.*)")).matcher()
    assert len(matcher.mask()) == 9
    assert max(allowed(matcher)) < 270
