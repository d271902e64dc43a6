"""A model's vocabulary as llguidance takes it."""

from __future__ import annotations

from llguidance import LLTokenizer, TokenizerWrapper

from tenfold.text.tokenizer import Tokenizer

# llguidance marks special tokens by this byte, which begins no UTF-8 text: no other token may begin with it.
_SPECIAL_MARK = b"\xff"
# Of a text that a grammar forces only the first token is wanted, but the whole is asked for, at every token anew.
_MERGED_BYTES = 256
# Stands between the space that some tokenizers put in front of a text and a text that continues another.
_APART = b"\x01"


class Vocabulary:
    """The attributes that `llguidance.TokenizerWrapper` reads.

    Args:
        tokenizer: the model's.
        size: width of the logits; the vocabulary may be smaller.

    Attributes:
        tokens: bytes of each token; of those that stand for no text and are not special, none.
        special_token_ids: tokens that no text matches.
        eos_ids: the tokens that end a text, at least one: of a model without them, one past its logits.
    """

    bos_token_id: int | None = None

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        known = min(size, tokenizer.vocab_size)
        self._tokenizer = tokenizer
        self.tokens = [_matchable(tokenizer.token_bytes(token)) for token in range(known)]
        self.tokens += [b""] * (size - known)
        self.special_token_ids = [token for token in range(known) if tokenizer.is_special(token)]
        self.eos_ids = [token for token in tokenizer.eos_ids if 0 <= token < known]
        if not self.eos_ids:
            self.eos_ids = [size]
            self.special_token_ids.append(size)
            self.tokens.append(b"no end")
        self.eos_token_id = self.eos_ids[0]
        self._of_byte = {data[0]: token for token, data in enumerate(self.tokens) if len(data) == 1}

    def __call__(self, text: bytes) -> list[int]:
        """Token ids of a text that continues another, byte by byte where it is far from its beginning."""
        end = _MERGED_BYTES
        while end < len(text) and text[end] & 0xC0 == 0x80:  # inside a character
            end += 1
        head = self._encode(text[:end])
        return head + [self._of_byte[byte] for byte in text[end:] if byte in self._of_byte]

    def _encode(self, text: bytes) -> list[int]:
        apart = _APART if self._tokenizer.space_prefix else b""
        ids = self._tokenizer.encode(
            (apart + text).decode("utf-8", "replace"), add_special=False, parse_special=False
        )
        extra = len(b" " + apart) if apart else 0
        while extra > 0 and ids:
            extra -= len(self._tokenizer.token_bytes(ids.pop(0)))
        if max(ids, default=0) < len(self.tokens) and b"".join(self.tokens[token] for token in ids) == text:
            return ids
        # The tokenizer changes this text (it normalizes), or merges what was put in front: bytes are right too.
        return [self._of_byte[byte] for byte in text if byte in self._of_byte]


def llguidance_tokenizer(tokenizer: Tokenizer, size: int) -> LLTokenizer:
    """Build llguidance's tokenizer: a trie over the bytes of all tokens. Takes half a second for 50,000 tokens.

    Args:
        tokenizer: the model's.
        size: width of the logits.
    """
    vocabulary = Vocabulary(tokenizer, size)
    return LLTokenizer(TokenizerWrapper(vocabulary), eos_token=vocabulary.eos_ids)


def _matchable(data: bytes) -> bytes:
    return b"" if data.startswith(_SPECIAL_MARK) else data
