"""A tokenizer from a Hugging Face folder's tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers

from tenfold.core.errors import CheckpointError, UnsupportedModelError
from tenfold.text.backend import Backend
from tenfold.text.token_codec import TokenCodec


def build_json_tokenizer(path: Path) -> Backend:
    """Load the file.

    Raises:
        CheckpointError: the file cannot be read or parsed.
        UnsupportedModelError: it decodes tokens in a way that is not built (WordPiece, for one).
    """
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(path, f"the tokenizer cannot be loaded: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    codec, space_prefix = _codec(path, tokenizer)
    added = tokenizer.get_added_tokens_decoder()
    return Backend(
        tokenizer=tokenizer,
        codec=codec,
        added={token_id: token.content for token_id, token in added.items()},
        special=frozenset(token_id for token_id, token in added.items() if token.special),
        space_prefix=space_prefix,
        vocab_size=max([tokenizer.get_vocab_size(with_added_tokens=False), *(i + 1 for i in added)]),
        piece=tokenizer.id_to_token,
    )


def _codec(path: Path, tokenizer: tokenizers.Tokenizer) -> tuple[TokenCodec, bool]:
    """Return how pieces stand for bytes, and whether decoding takes a space from the front."""
    decoder = tokenizer.decoder
    state = {} if decoder is None else json.loads(decoder.__getstate__())
    steps = list(_steps(state))
    kinds = [step.get("type") for step in steps]
    if "ByteLevel" in kinds:
        return TokenCodec.BYTE_LEVEL, False
    for step in steps:
        if step.get("type") == "Metaspace":
            return TokenCodec.SENTENCEPIECE, step.get("prepend_scheme", "always") != "never"
    if "ByteFallback" in kinds:
        return TokenCodec.SENTENCEPIECE, any(
            s.get("type") == "Strip" and s.get("start", 0) > 0 for s in steps
        )
    raise UnsupportedModelError(
        f"{path}: the tokenizer's decoder {state.get('type')!r} is not built; "
        "byte-level (ByteLevel) and SentencePiece (Metaspace, ByteFallback) decoders are."
    )


def _steps(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if state.get("type") == "Sequence":
        for step in state.get("decoders", ()):
            yield from _steps(step)
    else:
        yield state
