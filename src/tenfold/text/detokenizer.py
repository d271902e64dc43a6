"""Token ids to text, one token at a time."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from tenfold.text.tokenizer import Tokenizer


class IncrementalDetokenizer:
    """Turns the tokens of one output into text as they come.

    The texts that push and flush return, put together, are what decode gives for all the ids at once. Bytes
    of an unfinished character wait for the next token; a token costs the work of its own bytes.

    Args:
        tokenizer: the vocabulary.
        skip_special: leave special tokens out.
        shown_special: special tokens to show even so.
        at_start: the output begins a text, so that a SentencePiece model's first space goes. False (the
            default) for an output that continues a prompt.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        skip_special: bool = True,
        *,
        shown_special: Iterable[int] = (),
        at_start: bool = False,
    ) -> None:
        self._tokenizer = tokenizer
        self._shown_special = frozenset(shown_special)
        self._skip_special = skip_special
        self._drop_space = at_start and tokenizer.space_prefix
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """Return the text that this token completes, "" while a character is unfinished.

        An id past the vocabulary stands for no text: a model's embedding may have such spare rows, and
        sampling one must not end the output.
        """
        if not 0 <= token_id < self._tokenizer.vocab_size:
            return ""
        skip = self._skip_special and token_id not in self._shown_special
        data = self._tokenizer.token_bytes(token_id, skip_special=skip)
        if self._drop_space and data:
            self._drop_space = False
            if data.startswith(b" "):
                data = data[1:]
        return self._decoder.decode(data)

    def flush(self) -> str:
        """Return what is left at the end: U+FFFD for an unfinished character, else ""."""
        return self._decoder.decode(b"", final=True)
