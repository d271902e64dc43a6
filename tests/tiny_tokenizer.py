"""A byte-level BPE of a few hundred tokens, for tiny models: as GGUF metadata and as a tokenizer.json."""

from __future__ import annotations

import json
from typing import Any

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
BOS, EOS = 1, 2
NORMAL, CONTROL, UNUSED = 1, 3, 5  # GGUF's token types

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

# Frequent in English; "Ġ" is the byte-level alphabet's space. A merge's parts are bytes or come earlier.
_MERGES = (
    "Ġ t|h e|i n|Ġ a|r e|Ġt he|o n|Ġ s|e r|a t|Ġ w|Ġ o|o u|i s|Ġ c|e n|n d|i t|Ġ f|o r|e s|Ġ b|Ġa nd|e d|"
    "in g|Ġ p|o f|a n|l l|Ġt o|Ġ m|a l|Ġ in|a r|Ġ h|l e|Ġ d|i c|r o|l o|Ġ is"
)


def byte_alphabet() -> list[str]:
    """The 256 printable characters that stand for bytes in byte-level BPE, by byte."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (chr(256 + i) for i in range(256))
    return [chr(byte) if byte in plain else next(others) for byte in range(256)]


def tokens_and_merges(vocab: int) -> tuple[list[str], list[int], list[str]]:
    """`vocab` tokens (special, bytes, merged, then unused), their GGUF types, and the merges."""
    base = [*SPECIAL, *byte_alphabet()]
    if vocab < len(base):
        raise ValueError(f"a vocabulary of {vocab} is too small: special and byte tokens are {len(base)}")
    merges = _MERGES.split("|")[: vocab - len(base)]
    tokens = [*base, *(merge.replace(" ", "") for merge in merges)]
    types = [CONTROL] * len(SPECIAL) + [NORMAL] * (len(tokens) - len(SPECIAL))
    unused = vocab - len(tokens)
    return tokens + [f"<unused{i}>" for i in range(unused)], types + [UNUSED] * unused, merges


def tokenizer_json(vocab: int) -> str:
    """The same tokenizer as the text of a tokenizer.json."""
    tokens, _, merges = tokens_and_merges(vocab)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = [
        {
            "id": i,
            "content": token,
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for i, token in enumerate(SPECIAL)
    ]
    model: dict[str, Any] = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "vocab": {token: i for i, token in enumerate(tokens)},
        "merges": merges,
    }
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": byte_level,
            "post_processor": None,
            "decoder": byte_level,
            "model": model,
        }
    )
