"""Random texts that a matcher allows, without a model."""

from __future__ import annotations

import random

import numpy as np

from tenfold.grammar.matcher import Matcher
from tenfold.text.tokenizer import Tokenizer

_ENDERS = b'"}],'


def allowed(matcher: Matcher) -> list[int]:
    """Tokens of the matcher's mask."""
    return np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little")).tolist()


def walk(matcher: Matcher, tokenizer: Tokenizer, chooser: random.Random, limit: int = 1500) -> bytes | None:
    """A whole text, or None when it has not ended after `limit` tokens; often takes what ends a part."""
    data = b""
    for _ in range(limit):
        tokens = allowed(matcher)
        ends = [token for token in tokens if token in tokenizer.eos_ids]
        if ends and chooser.random() < 0.5:
            return data
        tokens = [token for token in tokens if token not in ends] or tokens
        brief = [token for token in tokens if tokenizer.token_bytes(token)[:1] in _ENDERS]
        token = chooser.choice(brief if brief and chooser.random() < 0.4 else tokens)
        if token in ends:
            return data
        data += tokenizer.token_bytes(token)
        if matcher.take(token):
            assert matcher.error is None
            return data
    return None
