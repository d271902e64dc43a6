"""TokenizerSource from GGUF metadata."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenfold.checkpoints.checkpoint import TokenizerSource
from tenfold.checkpoints.fields import Fields
from tenfold.checkpoints.stop_tokens import END_OF_TURN

_CONTROL = 3
_BOS_PRETOKENIZERS = frozenset({"llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "tekken"})
"""Byte-level BPE vocabularies that start a prompt with bos when the file does not say."""


def read_tokenizer(fields: Fields, vocab_size: int) -> TokenizerSource:
    """The tokenizer of a GGUF file; arrays become plain lists.

    Args:
        fields: the file's metadata.
        vocab_size: rows of the embedding, which ids must stay below.

    Raises:
        CheckpointError: there are no tokens, arrays disagree in length, or an id is out of range.
    """
    key = "tokenizer.ggml.tokens"
    tokens = fields.values.get(key)
    if not isinstance(tokens, list) or not tokens:
        raise fields.error(key, "is missing or no array of strings; the file has no tokenizer")
    if len(tokens) > vocab_size:
        raise fields.error(key, f"has {len(tokens)} tokens, but token_embd.weight has only {vocab_size} rows")
    types = _numbers(fields, "tokenizer.ggml.token_type", len(tokens), "iu")
    _numbers(fields, "tokenizer.ggml.scores", len(tokens), "f")
    merges = fields.values.get("tokenizer.ggml.merges")
    if merges is not None and not isinstance(merges, list):
        raise fields.error("tokenizer.ggml.merges", "must be an array of strings")
    ids = {
        name: _token_id(fields, name, len(tokens))
        for name in ("bos", "eos", "unknown", "padding", "eot", "eom")
    }
    texts = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    return TokenizerSource(
        gguf={
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in fields.values.items()
            if name.startswith("tokenizer.")
        },
        chat_template=fields.text("tokenizer.chat_template"),
        bos_token_id=ids["bos"],
        eos_token_ids=_stop_ids(ids, tokens, types),
        add_bos=fields.boolean("tokenizer.ggml.add_bos_token", _adds_bos(fields)),
        special={role: tokens[index] for role, name in texts.items() if (index := ids[name]) is not None},
    )


def _token_id(fields: Fields, name: str, count: int) -> int | None:
    """The id of a named token; None when absent, or -1 or 2^32 - 1, as some converters write it."""
    key = f"tokenizer.ggml.{name}_token_id"
    value = fields.values.get(key)
    if value is None or (isinstance(value, int) and value in (-1, 2**32 - 1)):
        return None
    return fields.integer(key, high=count - 1)


def _numbers(fields: Fields, key: str, count: int, kinds: str) -> np.ndarray[Any, np.dtype[Any]] | None:
    """An array of `count` numbers whose dtype is of one of these kinds, or None."""
    values = fields.values.get(key)
    if values is None:
        return None
    if not isinstance(values, np.ndarray) or values.dtype.kind not in kinds:
        raise fields.error(key, "must be an array of numbers")
    if values.size != count:
        raise fields.error(key, f"has {values.size} entries for {count} tokens")
    return values


def _adds_bos(fields: Fields) -> bool:
    """Whether this kind of tokenizer starts a prompt with bos when the file does not say."""
    if fields.text("tokenizer.ggml.model") == "llama":  # SentencePiece: Llama 2, Mistral, Gemma
        return True
    return fields.text("tokenizer.ggml.pre", "default") in _BOS_PRETOKENIZERS


def _stop_ids(
    ids: dict[str, int | None], tokens: list[str], types: np.ndarray[Any, np.dtype[Any]] | None
) -> tuple[int, ...]:
    """Every id that ends a turn or a text: see stop_tokens."""
    stops = [index for name in ("eos", "eot", "eom") if (index := ids[name]) is not None]
    if types is not None:
        stops += [
            index for index in np.flatnonzero(types == _CONTROL).tolist() if tokens[index] in END_OF_TURN
        ]
    return tuple(dict.fromkeys(stops))
