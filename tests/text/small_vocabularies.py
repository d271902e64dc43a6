"""Small tokenizers for tests, as GGUF metadata."""

from __future__ import annotations

from typing import Any

from tenfold.text.token_codec import byte_alphabet
from tenfold.text.tokenizer import Tokenizer

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
DEFINED = ["<tool>"]


def byte_level_metadata(pre: str = "smollm") -> dict[str, Any]:
    """3 special tokens, 1 user-defined, the 256 bytes, and merges for a few English pieces."""
    pairs = [
        "h e",
        "l l",
        "he ll",
        "hell o",
        "Ġ w",
        "o r",
        "Ġw or",
        "l d",
        "Ġwor ld",
        "Ġ Ġ",
        "1 2",
        "Ã ©",
        "ð Ł",
    ]
    tokens = [*SPECIAL, *DEFINED, *byte_alphabet(), *(pair.replace(" ", "") for pair in pairs)]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [4] + [1] * (len(tokens) - len(SPECIAL) - 1),
        "tokenizer.ggml.merges": pairs,
    }


def sentencepiece_metadata(*, space_prefix: bool) -> dict[str, Any]:
    """<unk>, <s>, </s>, 256 byte pieces, letters, and scored pieces; a run of 2 spaces is user-defined."""
    letters = [*"abcdehlnorstw", "▁", "é", "文"]
    joined = [
        "ll",
        "▁w",
        "he",
        "or",
        "▁wor",
        "llo",
        "hello",
        "ld",
        "▁world",
        "lo",
        "▁he",
        "▁hello",
        "s▁t",
        "abc",
    ]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "  ", *joined, *letters]
    types = [2, 3, 3] + [6] * 256 + [4] + [1] * (len(joined) + len(letters))
    scores = [0.0] * (3 + 256 + 1) + [-float(i) for i in range(len(joined))] + [-100.0] * len(letters)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": space_prefix,
    }


def byte_level(pre: str = "smollm") -> Tokenizer:
    """A tokenizer with bos 1 and end 2."""
    return Tokenizer.from_gguf(byte_level_metadata(pre), bos_id=1, eos_ids=(2,))


def sentencepiece(*, space_prefix: bool = True) -> Tokenizer:
    """A tokenizer that puts bos 1 in front; end 2."""
    return Tokenizer.from_gguf(
        sentencepiece_metadata(space_prefix=space_prefix), bos_id=1, eos_ids=(2,), add_bos=True
    )
