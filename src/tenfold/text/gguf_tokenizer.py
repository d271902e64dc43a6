"""A tokenizer from a GGUF file's metadata: the keys `tokenizer.ggml.*` of the GGUF specification."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import tokenizers
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers

from tenfold.core.errors import CheckpointError, UnsupportedModelError
from tenfold.text.backend import Backend
from tenfold.text.pretokenizers import split_rule
from tenfold.text.sentencepiece_merges import cached_splits
from tenfold.text.token_codec import SPACE_MARK, TokenCodec

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_MAX_GLUE = 64


def build_gguf_tokenizer(metadata: Mapping[str, Any], *, cache_dir: Path | None, file: object) -> Backend:
    """Build from metadata.

    Args:
        metadata: at least tokenizer.ggml.model and tokenizer.ggml.tokens.
        cache_dir: where derived merges are kept between starts; None keeps none.
        file: what error messages call the file.

    Raises:
        CheckpointError: a key is missing or has the wrong type or length.
        UnsupportedModelError: the tokenizer's kind or pre-tokenizer is not built.
    """
    reader = _Metadata(metadata, file)
    kind = reader.text("tokenizer.ggml.model", None)
    if kind == "gpt2":
        return _byte_level(reader)
    if kind == "llama":
        return _sentencepiece(reader, cache_dir)
    raise UnsupportedModelError(
        f"{file} has a tokenizer of kind {kind!r} (tokenizer.ggml.model), which is not built; "
        "the built ones are 'gpt2' (byte-level BPE) and 'llama' (SentencePiece BPE)."
    )


class _Metadata:
    """Reads typed values out of untrusted metadata."""

    def __init__(self, values: Mapping[str, Any], file: object) -> None:
        self._values = values
        self._file = file
        self.tokens: list[str] = self.array("tokenizer.ggml.tokens", str)
        if not self.tokens:
            self.fail("tokenizer.ggml.tokens", "the vocabulary is empty")
        self.types: list[int] = self.array(
            "tokenizer.ggml.token_type", int, like_tokens=True, default=_NORMAL
        )

    def fail(self, key: str, problem: str) -> NoReturn:
        raise CheckpointError(self._file, problem, tensor=key)

    def text(self, key: str, default: str | None) -> str:
        value = self._values.get(key, default)
        if not isinstance(value, str):
            self.fail(
                key,
                "the key is missing" if value is None else f"a string is needed, not {type(value).__name__}",
            )
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._values.get(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"true or false is needed, not {value!r:.40}")
        return value

    def token_id(self, key: str) -> int | None:
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or not 0 <= value < len(self.tokens):
            self.fail(key, f"{value!r:.40} is no id of the {len(self.tokens)} tokens")
        return value

    def array(self, key: str, kind: type, *, like_tokens: bool = False, default: Any = None) -> list[Any]:
        value = self._values.get(key)
        if value is None:
            if default is None:
                self.fail(key, "the key is missing")
            return [default] * len(self.tokens)
        items = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(items, (str, bytes)) or not hasattr(items, "__len__"):
            self.fail(key, f"an array is needed, not {type(value).__name__}")
        items = list(items)
        if set(map(type, items)) - {kind}:
            self.fail(key, f"the array has elements that are not of type {kind.__name__}")
        if like_tokens and len(items) != len(self.tokens):
            self.fail(key, f"{len(items)} elements, but there are {len(self.tokens)} tokens")
        return items


def _byte_level(reader: _Metadata) -> Backend:
    rule = split_rule(reader.text("tokenizer.ggml.pre", "default"))
    merges = [tuple(merge.split(" ")) for merge in reader.array("tokenizer.ggml.merges", str)]
    if set(map(len, merges)) - {2}:
        reader.fail("tokenizer.ggml.merges", "a merge is not two pieces with one space between")
    vocab = _vocabulary(reader.tokens)
    try:
        model = models.BPE(vocab=vocab, merges=merges, ignore_merges=rule.whole_words)
    except Exception as error:  # the library raises bare Exception
        reader.fail("tokenizer.ggml.merges", f"the merges do not fit the tokens: {error}")
    tokenizer = tokenizers.Tokenizer(model)
    normalizer = rule.normalizer()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = rule.build()
    return _backend(reader, tokenizer, reader.tokens, TokenCodec.BYTE_LEVEL)


def _sentencepiece(reader: _Metadata, cache_dir: Path | None) -> Backend:
    scores = reader.array("tokenizer.ggml.scores", float, like_tokens=True)
    types = reader.types
    space_prefix = reader.flag("tokenizer.ggml.add_space_prefix", True)
    # A user-defined piece is matched in the text as the user wrote it, before spaces are marked.
    pieces = [
        piece.replace(SPACE_MARK, " ") if kind == _USER_DEFINED else piece
        for piece, kind in zip(reader.tokens, types, strict=True)
    ]
    ids = [i for i, kind in enumerate(types) if kind == _NORMAL and pieces[i]]
    splits = cached_splits(pieces, scores, ids, cache_dir)
    unknown = reader.token_id("tokenizer.ggml.unknown_token_id")
    if unknown is None and _UNKNOWN in types:
        unknown = types.index(_UNKNOWN)
    try:
        model = models.BPE(
            vocab=_vocabulary(pieces),
            merges=splits.merges(pieces),
            unk_token=None if unknown is None else pieces[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    except Exception as error:  # the library raises bare Exception
        reader.fail("tokenizer.ggml.tokens", f"no merges could be built from the pieces: {error}")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", SPACE_MARK)
    if len(splits.glue) <= _MAX_GLUE:
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_word_pattern(splits.glue)), behavior="isolated")
    names = [
        piece for piece, kind in zip(pieces, types, strict=True) if kind in (_CONTROL, _UNKNOWN) and piece
    ]
    prepare = _SentencePieceText(names if space_prefix else None)
    return _backend(reader, tokenizer, pieces, TokenCodec.SENTENCEPIECE, prepare=prepare)


class _SentencePieceText:
    """Makes of a text what SentencePiece sees of it.

    The mark in a text is a space to it. With a space prefix each stretch between special tokens gets a space in
    front, as in the chats such models were trained on.

    Args:
        special: texts of the special tokens; None for a model without the space prefix.
    """

    def __init__(self, special: list[str] | None) -> None:
        self.space_prefix = special is not None
        ordered = sorted(special or (), key=len, reverse=True)
        self._special = re.compile("(" + "|".join(map(re.escape, ordered)) + ")") if ordered else None

    def __call__(self, text: str, parse_special: bool) -> str:
        text = text.replace(SPACE_MARK, " ")
        if not self.space_prefix or not text:
            return text
        if self._special is None or not parse_special:
            return " " + text
        parts = self._special.split(text)
        return "".join(part if index % 2 or not part else " " + part for index, part in enumerate(parts))


def _word_pattern(glue: str) -> str:
    """Return the pattern of what can be merged apart: marks, then no mark unless some piece has it there.

    Splitting changes no id, as no piece reaches across; it lets the library remember words and keeps long
    texts fast.
    """
    inner = f"[^{SPACE_MARK}]+"
    if glue:
        inner = f"(?:{inner}|(?<=[{re.escape(glue)}]){SPACE_MARK}+)+"
    return f"{SPACE_MARK}*{inner}|{SPACE_MARK}+"


def _vocabulary(pieces: list[str]) -> dict[str, int]:
    """Return ids by text; of pieces with the same text the first counts, as for the file's own runtime."""
    vocab = {piece: i for i, piece in enumerate(pieces)}
    if len(vocab) < len(pieces):
        vocab = {}
        for i, piece in enumerate(pieces):
            vocab.setdefault(piece, i)
    return vocab


def _backend(
    reader: _Metadata,
    tokenizer: tokenizers.Tokenizer,
    pieces: list[str],
    codec: TokenCodec,
    *,
    prepare: _SentencePieceText | None = None,
) -> Backend:
    special = [i for i, kind in enumerate(reader.types) if kind in (_CONTROL, _UNKNOWN)]
    defined = [i for i, kind in enumerate(reader.types) if kind == _USER_DEFINED]
    tokenizer.add_special_tokens(
        [AddedToken(pieces[i], normalized=False, special=True) for i in special if pieces[i]]
    )
    tokenizer.add_tokens(
        [AddedToken(pieces[i], normalized=False, special=False) for i in defined if pieces[i]]
    )
    return Backend(
        tokenizer=tokenizer,
        codec=codec,
        added={i: pieces[i] for i in (*special, *defined)},
        special=frozenset(special),
        space_prefix=prepare is not None and prepare.space_prefix,
        vocab_size=len(pieces),
        piece=pieces.__getitem__,
        prepare=prepare,
    )
