"""Chat messages to token ids, with what users wrote kept apart from what the template wrote."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.core.errors import InvalidRequestError
from tenfold.text.chat_template import ChatTemplate, Message
from tenfold.text.tokenizer import Tokenizer

# A private-use character frames the marks; with a random number in them, no text can forge one.
_FRAME = "\uf8ff"


class ChatPromptEncoder:
    """Encodes chats so that no message can pose as another.

    The template's own special tokens ("<|im_start|>") become special ids. The same words inside a message, a
    tool or a role are encoded as plain text: they are replaced by marks while the template runs, and the
    marks by the plain ids of the words. A chat without such words is rendered and encoded in one go.

    Args:
        tokenizer: the vocabulary.
        template: the model's chat template.
    """

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._template = template
        texts = sorted(tokenizer.special_texts, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, texts))) if texts else None

    def encode(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        max_tokens: int | None = None,
        **options: Any,
    ) -> list[int]:
        """Return the prompt's ids.

        Args:
            messages: as ChatTemplate.render takes them.
            tools: function descriptions.
            max_tokens: refuse a longer prompt.
            options: further arguments of ChatTemplate.render.

        Raises:
            InvalidRequestError: as ChatTemplate.render and Tokenizer.encode.
        """
        marks = _Marks(self._special)
        # Made plain first: joined parts and decoded arguments may spell what their pieces did not.
        text = self._template.render(
            [marks.hide(message) for message in self._template.plain(messages)],
            tools=None if tools is None else [marks.hide(dict(tool)) for tool in tools],
            **options,
        )
        ids: list[int] = []
        for part, is_plain in marks.parts(text):
            room = None if max_tokens is None else max(max_tokens - len(ids), 0)
            try:
                ids += self._tokenizer.encode(
                    part, add_special=False, parse_special=not is_plain, max_tokens=room
                )
            except InvalidRequestError as error:
                if error.code != "context_length_exceeded":
                    raise
                raise InvalidRequestError(
                    f"the messages have more than {max_tokens} tokens, the limit here; shorten them.",
                    param="messages",
                    code=error.code,
                ) from error
        return ids


class _Marks:
    """Replaces special tokens' texts in values by marks, and finds the marks again in the rendered text."""

    def __init__(self, special: re.Pattern[str] | None) -> None:
        self._special = special
        self._nonce = secrets.token_hex(8)
        self._hidden: list[str] = []

    def hide(self, value: Any) -> Any:
        """Return the value with marks in all its strings."""
        if self._special is None:
            return value
        if isinstance(value, str):
            return self._special.sub(self._mark, value)
        if isinstance(value, Mapping):
            return {self.hide(key): self.hide(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.hide(item) for item in self._sealed(value)]
        return value

    def parts(self, text: str) -> list[tuple[str, bool]]:
        """Return the text in parts, and of each whether it is the words of a special token in a message."""
        if not self._hidden:
            return [(text, False)]
        pieces = re.split(f"{_FRAME}{self._nonce}:([0-9]+){_FRAME}", text)
        parts = []
        for index, piece in enumerate(pieces):
            if index % 2:
                parts.append((self._hidden[int(piece)], True))
            elif piece:
                parts.append((piece, False))
        return parts

    def _sealed(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return parts of text as one part where, side by side, they would spell a special token."""
        if self._special is None:
            return items
        found = [item.get("text") for item in items if isinstance(item, Mapping)]
        texts = [text for text in found if isinstance(text, str)]
        if len(texts) < 2 or len(texts) < len(items):
            return items
        apart = sum(len(self._special.findall(text)) for text in texts)
        # Templates write parts one after the other, some without the blanks around them.
        for together in ("".join(texts), "".join(map(str.strip, texts))):
            if len(self._special.findall(together)) != apart:
                return [{"type": "text", "text": "".join(texts)}]
        return items

    def _mark(self, match: re.Match[str]) -> str:
        self._hidden.append(match[0])
        return f"{_FRAME}{self._nonce}:{len(self._hidden) - 1}{_FRAME}"
