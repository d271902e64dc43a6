"""Log probabilities in the shapes of the two APIs."""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.core.request import TokenLogprobs
from tenfold.server.replies import ChatLogprobs, ChatTokenLogprob, CompletionLogprobs, TopLogprob
from tenfold.text.tokenizer import Tokenizer

# JSON has no minus infinity; clients know this number as "never".
_NEVER = -9999.0


class TokenTexts:
    """Each token's text and bytes, remembered: the same few thousand tokens are asked for again and again.

    Args:
        tokenizer: whose tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, tuple[str, list[int]]] = {}

    def of(self, token_id: int) -> tuple[str, list[int]]:
        """The token's text (a part of a character shows as U+FFFD) and its bytes."""
        known = self._known.get(token_id)
        if known is None:
            # A model's logits may be padded beyond its vocabulary; those rows mean nothing.
            padding = token_id >= self._tokenizer.vocab_size
            data = b"" if padding else self._tokenizer.token_bytes(token_id)
            known = self._known[token_id] = (data.decode("utf-8", "replace"), list(data))
        return known


def chat_logprobs(entries: Sequence[TokenLogprobs], texts: TokenTexts) -> ChatLogprobs:
    """Entries in the chat's shape."""
    content = []
    for entry in entries:
        text, data = texts.of(entry.token_id)
        top = []
        for token_id, logprob in entry.top:
            top_text, top_data = texts.of(token_id)
            top.append(TopLogprob(top_text, max(logprob, _NEVER), top_data))
        content.append(ChatTokenLogprob(text, max(entry.logprob, _NEVER), data, top))
    return ChatLogprobs(content)


def completion_logprobs(
    entries: Sequence[TokenLogprobs], texts: TokenTexts, offset: int
) -> tuple[CompletionLogprobs, int]:
    """Entries in the older API's shape.

    Args:
        entries: the tokens.
        texts: their texts.
        offset: characters before the first of them.

    Returns:
        The arrays, and the offset after the last token.
    """
    tokens: list[str] = []
    logprobs: list[float] = []
    tops: list[dict[str, float]] = []
    offsets: list[int] = []
    for entry in entries:
        text, _ = texts.of(entry.token_id)
        tokens.append(text)
        logprobs.append(max(entry.logprob, _NEVER))
        offsets.append(offset)
        offset += len(text)
        top = {text: max(entry.logprob, _NEVER)}
        for token_id, logprob in entry.top:
            top.setdefault(texts.of(token_id)[0], max(logprob, _NEVER))
        tops.append(top)
    return CompletionLogprobs(tokens, logprobs, tops, offsets), offset
