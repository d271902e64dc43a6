"""Following a grammar token by token."""

from __future__ import annotations

from tenfold.core.structured_output import StructuredOutput
from tenfold.grammar.grammars import Grammars
from tenfold.text.tokenizer import Tokenizer
from tests.grammar.walks import allowed
from tests.tiny_tokenizer import BOS, EOS


def bytes_of(tokenizer: Tokenizer, tokens: list[int]) -> set[bytes]:
    return {tokenizer.token_bytes(token) for token in tokens if not tokenizer.is_special(token)}


def test_the_end_is_allowed_where_the_text_may_end(grammars: Grammars, tokenizer: Tokenizer) -> None:
    matcher = grammars.get(StructuredOutput("regex", "ab?")).matcher()
    (a,), (b,) = (tokenizer.encode(text, add_special=False) for text in "ab")
    assert allowed(matcher) == [a]
    assert not matcher.take(a)
    assert set(allowed(matcher)) == {b, EOS}
    assert matcher.take(b)
    assert matcher.error is None


def test_tokens_of_several_bytes_count(grammars: Grammars, tokenizer: Tokenizer) -> None:
    matcher = grammars.get(StructuredOutput("regex", "in|is|it")).matcher()
    assert bytes_of(tokenizer, allowed(matcher)) == {b"i", b"in", b"is", b"it"}


def test_special_tokens_are_no_text(grammars: Grammars, tokenizer: Tokenizer) -> None:
    matcher = grammars.get(StructuredOutput("regex", "(?s:.*)")).matcher()
    tokens = allowed(matcher)
    assert BOS not in tokens
    assert EOS in tokens
    assert max(tokens) < 300
    name = grammars.get(StructuredOutput("choice", '["<|im_end|>"]')).matcher()
    assert bytes_of(tokenizer, allowed(name)) == {b"<"}
    assert EOS not in allowed(name)


def test_a_token_that_does_not_fit_is_an_error_and_ends_all(grammars: Grammars, tokenizer: Tokenizer) -> None:
    matcher = grammars.get(StructuredOutput("regex", "a+")).matcher()
    (x,) = tokenizer.encode("x", add_special=False)
    assert matcher.take(x)
    assert matcher.error
    assert "\n" not in matcher.error


def test_matchers_of_one_grammar_are_apart(grammars: Grammars, tokenizer: Tokenizer) -> None:
    grammar = grammars.get(StructuredOutput("regex", "a{3}|b{3}"))
    one, other = grammar.matcher(), grammar.matcher()
    a, b = (tokenizer.encode(text, add_special=False)[0] for text in "ab")
    one.take(a)
    other.take(b)
    assert (allowed(one), allowed(other)) == ([a], [b])
    assert set(allowed(grammar.matcher())) == {a, b}
