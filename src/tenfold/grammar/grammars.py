"""Compiled grammars of one model."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import TimeoutError as TimedOut
from typing import TYPE_CHECKING

from tenfold.core.errors import InvalidRequestError
from tenfold.core.structured_output import StructuredOutput
from tenfold.grammar.deep_threads import DeepThreads
from tenfold.grammar.matcher import Matcher, one_line
from tenfold.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

KEPT = 64
COMPILE_SECONDS = 10.0
# A state takes 1 to 2 KB, in every completion that follows the grammar.
_MAX_LEXER_STATES = 100_000


class Grammar:
    """A compiled grammar.

    Args:
        start: llguidance's matcher at the start.
        words: length of masks.
    """

    def __init__(self, start: LLMatcher, words: int) -> None:
        self._start = start
        self._words = words

    def matcher(self) -> Matcher:
        """Begin a completion."""
        return Matcher(self._start.deep_copy(), self._words)


class Grammars:
    """Compiles grammars for one model and keeps those used last. Safe to use from several threads.

    Args:
        tokenizer: the model's.
        vocab_size: width of the logits.
        kept: how many grammars are kept.
        compile_seconds: a grammar that takes longer to compile is refused.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        vocab_size: int,
        *,
        kept: int = KEPT,
        compile_seconds: float = COMPILE_SECONDS,
    ) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._kept = kept
        self._seconds = compile_seconds
        self._grammars: OrderedDict[StructuredOutput, Grammar] = OrderedDict()
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._built: LLTokenizer | None = None
        self._compilers = DeepThreads(2, "tenfold-grammar")

    def get(self, structured: StructuredOutput) -> Grammar:
        """The grammar, compiled unless it is known; that takes milliseconds, for large ones up to seconds.

        Raises:
            InvalidRequestError: it cannot be compiled, no text matches it, or it takes too long; param is
                "structured".
        """
        with self._lock:
            known = self._grammars.get(structured)
            if known is not None:
                self._grammars.move_to_end(structured)
                return known
        structured.check()
        # Of a vocabulary of 250,000 tokens the trie takes seconds, once, which are not the grammar's.
        tokens = self._tokens()
        compilers = self._compilers
        task = compilers.submit(lambda: self._compile(structured, tokens))
        try:
            grammar = task.result(self._seconds)
        except TimedOut:
            # It cannot be stopped; its thread is left to it, so that others need not wait.
            task.cancel()
            with self._lock:
                if self._compilers is compilers:
                    self._compilers = DeepThreads(2, "tenfold-grammar")
            raise InvalidRequestError(
                f"the {structured.kind} takes longer than {self._seconds:g} seconds to compile; make it simpler.",
                param="structured",
            ) from None
        with self._lock:
            self._grammars[structured] = grammar
            while len(self._grammars) > self._kept:
                self._grammars.popitem(last=False)
        return grammar

    def _compile(self, structured: StructuredOutput, tokens: LLTokenizer) -> Grammar:
        # Here, as llguidance takes a tenth of a second to import and most servers never need it.
        from llguidance import LLMatcher, LLParserLimits

        from tenfold.grammar.source import grammar_source

        limits = LLParserLimits(max_lexer_states=_MAX_LEXER_STATES, verbose_errors=False)
        start = LLMatcher(tokens, grammar_source(structured), log_level=0, limits=limits)
        start.compute_bitmask()  # what the first mask costs is paid here once, not by each completion
        if start.is_error():
            problem = one_line(start.get_error())
            if problem.startswith("NoExtension"):
                problem = "no text matches it"
            raise InvalidRequestError(
                f"the {structured.kind} cannot be compiled: {problem}.", param="structured"
            )
        return Grammar(start, -(-self._vocab_size // 32))

    def _tokens(self) -> LLTokenizer:
        from tenfold.grammar.vocabulary import llguidance_tokenizer

        with self._building:
            if self._built is None:
                self._built = llguidance_tokenizer(self._tokenizer, self._vocab_size)
            return self._built
