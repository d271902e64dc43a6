"""Log probabilities in the shapes of the two APIs, and in vLLM's."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tenfold.core.request import TokenLogprobs
from tenfold.server.replies import (
    ChatLogprobs,
    ChatTokenLogprob,
    CompletionLogprobs,
    PromptLogprob,
    PromptLogprobs,
    TopLogprob,
)
from tenfold.text.detokenizer import IncrementalDetokenizer
from tenfold.text.tokenizer import Tokenizer

# JSON has no minus infinity; clients know this number as "never".
_NEVER = -9999.0


class TokenTexts:
    """Each token's text and bytes, remembered: the same few thousand tokens are asked for again and again.

    Args:
        tokenizer: whose tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._known: dict[int, tuple[str, list[int]]] = {}

    def of(self, token_id: int) -> tuple[str, list[int]]:
        """The token's text (a part of a character shows as U+FFFD) and its bytes."""
        known = self._known.get(token_id)
        if known is None:
            # A model's logits may be padded beyond its vocabulary; those rows mean nothing.
            padding = token_id >= self.tokenizer.vocab_size
            data = b"" if padding else self.tokenizer.token_bytes(token_id)
            known = self._known[token_id] = (data.decode("utf-8", "replace"), list(data))
        return known

    def key(self, token_id: int) -> str:
        """A text that tells the token from others: its bytes spelled out, where they are no whole characters."""
        text, data = self.of(token_id)
        if "\ufffd" in text and text.encode() != bytes(data):
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
        return text


class TokenWalk:
    """Goes over the tokens of a text: what each adds to it, and where.

    A token that ends inside a character adds nothing, and the one that completes it adds the character, so that the
    pieces put together are the text. Special tokens that the text leaves out show as their names and take no room.

    Args:
        texts: texts of single tokens.
        offset: characters before the first token.
        skip_special: the text leaves special tokens out.
        at_start: the tokens begin a text; see IncrementalDetokenizer.
    """

    def __init__(
        self, texts: TokenTexts, *, offset: int = 0, skip_special: bool = True, at_start: bool = False
    ) -> None:
        self._texts = texts
        self._tokenizer = texts.tokenizer
        self._skip_special = skip_special
        self._detokenizer = IncrementalDetokenizer(self._tokenizer, skip_special, at_start=at_start)
        self.offset = offset

    def push(self, token_id: int) -> tuple[str, int]:
        """The token's piece, and the offset where it begins."""
        offset, text = self.offset, self._detokenizer.push(token_id)
        self.offset += len(text)
        if not text and self._skip_special and self._is_special(token_id):
            text = self._texts.of(token_id)[0]
        return text, offset

    def flush(self) -> str:
        """What the text's end adds to the last token: U+FFFD for an unfinished character, else ""."""
        text = self._detokenizer.flush()
        self.offset += len(text)
        return text

    def _is_special(self, token_id: int) -> bool:
        return token_id < self._tokenizer.vocab_size and self._tokenizer.is_special(token_id)


class Echo(msgspec.Struct, frozen=True):
    """A prompt that a reply repeats.

    Args:
        text: the text.
        tokens: what each token adds to it; empty when no log probabilities were asked for.
        offsets: where each begins.
    """

    text: str
    tokens: list[str] = []
    offsets: list[int] = []


def echo_in_tokens(ids: Sequence[int], texts: TokenTexts, *, begun: bool, skip_special: bool) -> Echo:
    """A prompt token by token.

    Args:
        ids: the prompt.
        texts: texts of single tokens.
        begun: the first token was put in front of the text.
        skip_special: leave special tokens out of the text.
    """
    tokens: list[str] = [texts.of(ids[0])[0]] if begun else []
    offsets = [0] if begun else []
    text = ""
    walk = TokenWalk(texts, skip_special=skip_special, at_start=True)
    for token_id in ids[1:] if begun else ids:
        piece, offset = walk.push(token_id)
        tokens.append(piece)
        offsets.append(offset)
        if walk.offset > offset:
            text += piece
    rest = walk.flush()
    tokens[-1] += rest
    return Echo(text + rest, tokens, offsets)


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
    entries: Sequence[TokenLogprobs], texts: TokenTexts, walk: TokenWalk, *, cut_off: bool = False
) -> CompletionLogprobs:
    """Entries in the older API's shape.

    Args:
        entries: the tokens.
        texts: texts of single tokens.
        walk: over the text they are in; it moves on.
        cut_off: the text ends after them, perhaps inside a character.
    """
    arrays = CompletionLogprobs([], [], [], [])
    for entry in entries:
        piece, offset = walk.push(entry.token_id)
        if cut_off and entry is entries[-1]:
            piece += walk.flush()
        _append(arrays, piece, offset, entry, texts, len(entry.top))
    return arrays


def echo_logprobs(
    echo: Echo, entries: Sequence[TokenLogprobs], texts: TokenTexts, most: int
) -> CompletionLogprobs:
    """A prompt in the older API's shape, with the `most` likeliest tokens; its first token has no probability."""
    arrays = CompletionLogprobs([echo.tokens[0]], [None], [None], [echo.offsets[0]])
    for piece, offset, entry in zip(echo.tokens[1:], echo.offsets[1:], entries, strict=True):
        _append(arrays, piece, offset, entry, texts, most)
    return arrays


def _append(
    arrays: CompletionLogprobs, piece: str, offset: int, entry: TokenLogprobs, texts: TokenTexts, most: int
) -> None:
    arrays.tokens.append(piece)
    arrays.token_logprobs.append(max(entry.logprob, _NEVER))
    top = {piece: max(entry.logprob, _NEVER)}
    for token_id, logprob in entry.top[:most]:
        if token_id != entry.token_id:
            top.setdefault(texts.key(token_id), max(logprob, _NEVER))
    arrays.top_logprobs.append(top)
    arrays.text_offset.append(offset)


def prompt_logprobs(entries: Sequence[TokenLogprobs], texts: TokenTexts, most: int) -> PromptLogprobs:
    """A prompt's entries in vLLM's shape: null for the first token, then token id to probability, its own first."""
    shaped: PromptLogprobs = [None]
    for entry in entries:
        own = PromptLogprob(max(entry.logprob, _NEVER), entry.rank, texts.of(entry.token_id)[0])
        found = {str(entry.token_id): own}
        for rank, (token_id, logprob) in enumerate(entry.top[:most], 1):
            rival = PromptLogprob(max(logprob, _NEVER), rank, texts.of(token_id)[0])
            found.setdefault(str(token_id), rival)
        shaped.append(found)
    return shaped


def mean_logprob(entries: Sequence[TokenLogprobs]) -> float:
    """A completion's log probability a token."""
    return sum(entry.logprob for entry in entries) / max(1, len(entries))
