"""Text to token ids and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from tenfold.core.errors import InvalidRequestError
from tenfold.text.backend import Backend, without_special
from tenfold.text.gguf_tokenizer import build_gguf_tokenizer
from tenfold.text.json_tokenizer import build_json_tokenizer
from tenfold.text.token_codec import literal_bytes, piece_bytes

SECTION_CHARS = 1 << 16
"""Texts longer than this many characters are encoded in sections, so that a too long one is refused early."""

_BETWEEN_WORDS = re.compile(r"[A-Za-z](?= [A-Za-z])")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Tokenizer:
    """One vocabulary: encodes, decodes, and tells what a token stands for. Safe to use from several threads.

    Decoding works on bytes: the text of some ids is the UTF-8 of their bytes in a row, each ill-formed part
    of which becomes one U+FFFD. `special` has the named special tokens that chat templates use.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        bos_id: int | None = None,
        eos_ids: Iterable[int] = (),
        add_bos: bool = False,
        special: Mapping[str, str] | None = None,
    ) -> None:
        self._backend = backend
        self._full = backend.tokenizer
        self._plain: tokenizers.Tokenizer | None = None
        self._bytes: list[bytes | None] = [None] * backend.vocab_size
        self.bos_id = bos_id
        self.eos_ids = tuple(eos_ids)
        self.add_bos = add_bos and bos_id is not None
        self.special = dict(special or {})
        ends = self.eos_ids if bos_id is None else (bos_id, *self.eos_ids)
        self._special_ids = backend.special.union(i for i in ends if 0 <= i < backend.vocab_size)
        self._sections = not any(_BETWEEN_WORDS.search(text) for text in backend.added.values())

    @classmethod
    def from_file(
        cls,
        tokenizer_json: Path | str,
        *,
        bos_id: int | None = None,
        eos_ids: Iterable[int] = (),
        add_bos: bool = False,
        special: Mapping[str, str] | None = None,
    ) -> Tokenizer:
        """Load a Hugging Face tokenizer.json. Raises CheckpointError or UnsupportedModelError."""
        backend = build_json_tokenizer(Path(tokenizer_json))
        return cls(backend, bos_id=bos_id, eos_ids=eos_ids, add_bos=add_bos, special=special)

    @classmethod
    def from_gguf(
        cls,
        metadata: Mapping[str, Any],
        *,
        bos_id: int | None = None,
        eos_ids: Iterable[int] = (),
        add_bos: bool = False,
        special: Mapping[str, str] | None = None,
        cache_dir: Path | None = None,
        file: object = "the GGUF file",
    ) -> Tokenizer:
        """Build from a GGUF file's `tokenizer.*` metadata. Raises CheckpointError or UnsupportedModelError.

        Args:
            metadata: the keys and values.
            bos_id: the beginning-of-text token.
            eos_ids: the tokens that end a text or a turn.
            add_bos: put bos in front when encoding with add_special.
            special: named special tokens for chat templates.
            cache_dir: where what takes seconds to derive (SentencePiece merges) is kept; None keeps nothing.
            file: what error messages call the file.
        """
        backend = build_gguf_tokenizer(metadata, cache_dir=cache_dir, file=file)
        return cls(backend, bos_id=bos_id, eos_ids=eos_ids, add_bos=add_bos, special=special)

    @property
    def vocab_size(self) -> int:
        """One more than the largest token id. The model's embedding may have more rows than that."""
        return self._backend.vocab_size

    @property
    def space_prefix(self) -> bool:
        """Whether a text gets a space put in front, which decoding takes away again."""
        return self._backend.space_prefix

    @property
    def special_texts(self) -> tuple[str, ...]:
        """Texts of the special tokens: what encode with parse_special turns into a single special id."""
        added = self._backend.added
        return tuple(added[i] for i in sorted(self._backend.special) if added.get(i))

    def encode(
        self,
        text: str,
        *,
        add_special: bool = True,
        parse_special: bool = True,
        max_tokens: int | None = None,
    ) -> list[int]:
        """Return the token ids of a text.

        Args:
            text: any Unicode text without lone surrogates.
            add_special: put bos in front, if the model wants it.
            parse_special: turn the texts of special tokens ("<|im_end|>") into those tokens; false takes them
                as any other text.
            max_tokens: refuse a text with more tokens, without encoding much of the rest.

        Raises:
            InvalidRequestError: lone surrogates, or more than max_tokens tokens.

        Over 65,536 characters a text is encoded in sections that meet between two words, which changes no id;
        only where 65,536 more characters have no such place, a word is cut.
        """
        _refuse_surrogates(text)
        if self._backend.prepare is not None:
            text = self._backend.prepare(text, parse_special)
        tokenizer = self._full if parse_special else self._without_special()
        ids = [self.bos_id] if add_special and self.add_bos and self.bos_id is not None else []
        for section in self._split(text):
            ids.extend(tokenizer.encode(section, add_special_tokens=False).ids)
            if max_tokens is not None and len(ids) > max_tokens:
                raise InvalidRequestError(
                    f"the text has more than {max_tokens} tokens, which is the limit here; shorten it.",
                    code="context_length_exceeded",
                )
        return ids

    def decode(self, ids: Iterable[int], *, skip_special: bool = True, at_start: bool = True) -> str:
        """Return the text of token ids.

        Args:
            ids: the tokens.
            skip_special: leave special tokens out; otherwise they show as their names.
            at_start: the ids begin a text, so that the space a SentencePiece model put in front goes. False
                for ids that continue a text.

        Raises:
            InvalidRequestError: an id is outside the vocabulary.
        """
        data = b"".join(self.token_bytes(token_id, skip_special=skip_special) for token_id in ids)
        if at_start and self.space_prefix and data.startswith(b" "):
            data = data[1:]
        return data.decode("utf-8", "replace")

    def token_bytes(self, token_id: int, *, skip_special: bool = False) -> bytes:
        """Return the bytes the token stands for; for a special token its name, or b"" with skip_special.

        Raises InvalidRequestError for an id outside the vocabulary.
        """
        self._check(token_id)
        if skip_special and token_id in self._special_ids:
            return b""
        data = self._bytes[token_id]
        if data is None:
            data = self._bytes[token_id] = self._look_up(token_id)
        return data

    def is_special(self, token_id: int) -> bool:
        """Whether the token stands for no text. InvalidRequestError: the id is outside the vocabulary."""
        self._check(token_id)
        return token_id in self._special_ids

    def token_text(self, token_id: int) -> str:
        """Return the token's bytes as text, ill-formed parts as U+FFFD; special tokens show their names.

        Raises InvalidRequestError for an id outside the vocabulary.
        """
        return self.token_bytes(token_id).decode("utf-8", "replace")

    def _look_up(self, token_id: int) -> bytes:
        literal = self._backend.added.get(token_id)
        if literal is not None:
            return literal_bytes(literal)
        piece = self._backend.piece(token_id)
        return b"" if piece is None else piece_bytes(self._backend.codec, piece)

    def _check(self, token_id: int) -> None:
        if not 0 <= token_id < self._backend.vocab_size:
            raise InvalidRequestError(
                f"token {token_id} does not exist; ids are at least 0 and below the vocabulary's size, "
                f"{self._backend.vocab_size}."
            )

    def _without_special(self) -> tokenizers.Tokenizer:
        if self._plain is None:
            self._plain = without_special(self._full)
        return self._plain

    def _split(self, text: str) -> Iterator[str]:
        """Yield sections whose ids, one after another, are those of the text."""
        if len(text) <= SECTION_CHARS or not self._sections:
            yield text
            return
        # The library itself puts a space in front of each section: leave out the one that it begins with.
        skip = 1 if self.space_prefix and self._backend.prepare is None else 0
        start = 0
        while len(text) - start > 2 * SECTION_CHARS:
            match = _BETWEEN_WORDS.search(text, start + SECTION_CHARS, start + 2 * SECTION_CHARS)
            end = match.end() if match else start + 2 * SECTION_CHARS
            yield text[start:end]
            start = end + (skip if match else 0)
        yield text[start:]


def _refuse_surrogates(text: str) -> None:
    if text.isascii():
        return
    match = _SURROGATE.search(text)
    if match is not None:
        raise InvalidRequestError(
            f"the text has a lone surrogate, U+{ord(match[0]):04X}, at character {match.start()}, "
            "which stands for no character; remove it."
        )
