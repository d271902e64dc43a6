"""What a Tokenizer stands on: the library's object, and what the library does not tell of its vocabulary."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import tokenizers

from tenfold.text.token_codec import TokenCodec


@dataclass(frozen=True)
class Backend:
    """A built tokenizer.

    Args:
        tokenizer: the library's tokenizer, which finds special tokens in text.
        codec: how pieces stand for bytes.
        added: literal text by id of the tokens matched before any splitting (special and user-defined).
        special: ids that stand for no text: control tokens and the unknown token.
        space_prefix: a space is put in front of a text, and taken away when the text is decoded.
        vocab_size: one more than the largest id.
        piece: the vocabulary's text for an id, None for an id that has none.
        prepare: makes of a text, and of whether special tokens in it count, the text that the library gets;
            it puts the space in front then. None when the library does all of it.
    """

    tokenizer: tokenizers.Tokenizer
    codec: TokenCodec
    added: dict[int, str]
    special: frozenset[int]
    space_prefix: bool
    vocab_size: int
    piece: Callable[[int], str | None]
    prepare: Callable[[str, bool], str] | None = None


def without_special(full: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Return a twin that shares the model and treats special tokens in text as plain text."""
    twin = tokenizers.Tokenizer(full.model)
    if full.normalizer is not None:
        twin.normalizer = full.normalizer
    if full.pre_tokenizer is not None:
        twin.pre_tokenizer = full.pre_tokenizer
    added = full.get_added_tokens_decoder()
    in_order = [added[token_id] for token_id in sorted(added)]
    # In runs: the library prepares its search anew after every addition.
    for special, run in itertools.groupby(in_order, key=lambda token: bool(token.special)):
        if special:
            twin.add_special_tokens(list(run))
        else:
            twin.add_tokens(list(run))
    if any(twin.token_to_id(token.content) != token_id for token_id, token in added.items()):
        # Ids with gaps cannot be rebuilt in order; a full copy keeps them, at the cost of a second parse.
        twin = tokenizers.Tokenizer.from_str(full.to_str())
    twin.encode_special_tokens = True
    return twin
