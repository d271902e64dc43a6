"""From the text a vocabulary gives a token to the bytes the token stands for."""

from __future__ import annotations

import re
from enum import Enum

SPACE_MARK = "\u2581"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")


class TokenCodec(Enum):
    """How a vocabulary writes bytes as text."""

    BYTE_LEVEL = "byte_level"
    """One printable character a byte, as GPT-2 began it."""

    SENTENCEPIECE = "sentencepiece"
    """Plain text with U+2581 for a space, and pieces such as <0x0A> for single bytes."""


def byte_alphabet() -> list[str]:
    """Return the 256 characters that stand for bytes 0 to 255 in byte-level vocabularies.

    Printable Latin-1 bytes stand for themselves; the others take, in order, the characters from U+0100 on.
    """
    alphabet = []
    shifted = 0
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or 0xAE <= byte <= 0xFF:
            alphabet.append(chr(byte))
        else:
            alphabet.append(chr(0x100 + shifted))
            shifted += 1
    return alphabet


_BYTE_OF = {ord(character): byte for byte, character in enumerate(byte_alphabet())}


def piece_bytes(codec: TokenCodec, piece: str) -> bytes:
    """Return the bytes that a vocabulary's piece stands for.

    A byte-level piece with a character outside the alphabet stands for its own UTF-8 text, so that
    a vocabulary with unusual entries still decodes.
    """
    if codec is TokenCodec.BYTE_LEVEL:
        if all(ord(character) in _BYTE_OF for character in piece):
            return bytes(_BYTE_OF[ord(character)] for character in piece)
        return literal_bytes(piece)
    match = _BYTE_TOKEN.match(piece)
    if match is not None:
        return bytes([int(match[1], 16)])
    return literal_bytes(piece.replace(SPACE_MARK, " "))


def literal_bytes(text: str) -> bytes:
    """Return the text's UTF-8; a lone surrogate, which no file should have, becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text).encode()
