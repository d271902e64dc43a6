"""Prompts into token ids, refused early when they cannot fit."""

from __future__ import annotations

from typing import Any

from tenfold.core.errors import InvalidRequestError
from tenfold.server.engine import Engine
from tenfold.server.protocol import Message
from tenfold.server.tools import check_calls
from tenfold.text.chat_prompt import ChatPromptEncoder

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
# Names that mean something to whom we call; a request must not set them as variables of the template.
_TEMPLATE_ARGUMENTS = frozenset(
    {"self", "messages", "tools", "add_generation_prompt", "continue_final_message", "seconds", "max_tokens"}
)
# Shorter texts are tokenized at once; for longer ones it pays to look first whether they can fit at all.
_LONG_TEXT = 20_000


class Prompts:
    """Turns texts, messages and ids into checked prompts for one engine; safe to use from several threads.

    Args:
        engine: whose tokenizer, template and limits count.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        template = engine.chat_template
        self._chats = None if template is None else ChatPromptEncoder(engine.tokenizer, template)
        self._longest_token: int | None = None

    def from_text(self, text: str, *, param: str, add_special: bool = True) -> tuple[int, ...]:
        """Token ids of `text`. Raises InvalidRequestError when it cannot fit the model."""
        if len(text) > _LONG_TEXT:
            self._refuse_hopeless(text, param)
        limit = self._engine.max_model_len
        try:
            ids = self._engine.tokenizer.encode(text, add_special=add_special, max_tokens=limit)
        except InvalidRequestError as error:
            raise InvalidRequestError(f"{param}: {error}", param=param, code=error.code) from None
        return self._checked_length(ids, param)

    def from_ids(self, ids: list[int], *, param: str) -> tuple[int, ...]:
        """Checked token ids. Raises InvalidRequestError for ids outside the vocabulary."""
        self._checked_length(ids, param)
        self.check_ids(ids, param)
        return tuple(ids)

    def check_ids(self, ids: list[int], param: str) -> None:
        """Raise InvalidRequestError naming the first id that is no token."""
        limit = self._engine.vocab_size
        if ids and (min(ids) < 0 or max(ids) >= limit):
            at = next(number for number, token in enumerate(ids) if not 0 <= token < limit)
            raise InvalidRequestError(
                f"{param}[{at}] is {ids[at]}; token ids lie between 0 and {limit - 1}.",
                param=f"{param}[{at}]",
            )

    def from_messages(
        self,
        messages: list[Message],
        *,
        tools: list[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        template_kwargs: dict[str, Any] | None = None,
        unlimited: bool = False,
    ) -> tuple[int, ...]:
        """Token ids of a chat, by the model's template.

        Args:
            messages: the chat.
            tools: function descriptions for the template.
            add_generation_prompt: end with the opening of the assistant's turn.
            continue_final_message: end inside the last message.
            template_kwargs: more variables for the template.
            unlimited: take chats that are longer than the model's context.

        Raises:
            InvalidRequestError: naming the message at fault, or because the chat cannot fit.
        """
        if self._chats is None:
            raise InvalidRequestError(
                f"{self._engine.model_name} has no chat template for messages; use /v1/completions.",
                param="messages",
            )
        if not messages:
            raise InvalidRequestError("messages is empty; give at least one message.", param="messages")
        extra = template_kwargs or {}
        if taken := sorted(_TEMPLATE_ARGUMENTS & extra.keys()):
            raise InvalidRequestError(
                f"chat_template_kwargs has {taken[0]}, which is no variable of templates; leave it out.",
                param=f"chat_template_kwargs.{taken[0]}",
            )
        plain = [_plain_message(message, f"messages[{number}]") for number, message in enumerate(messages)]
        if not unlimited and sum(len(message["content"]) for message in plain) > _LONG_TEXT:
            self._refuse_hopeless("".join(message["content"] for message in plain), "messages")
        try:
            ids = self._chats.encode(
                plain,
                tools=tools,
                max_tokens=None if unlimited else self._engine.max_model_len,
                add_generation_prompt=add_generation_prompt and not continue_final_message,
                continue_final_message=continue_final_message,
                **extra,
            )
        except RecursionError:
            raise InvalidRequestError(
                "messages or tools are nested too deeply; flatten them.", param="messages"
            ) from None
        return tuple(ids) if unlimited else self._checked_length(ids, "messages")

    def _refuse_hopeless(self, text: str, param: str) -> None:
        """Refuse text so long that even the longest tokens could not fit it into the model."""
        longest = self._longest_token
        if longest is None:
            tokenizer = self._engine.tokenizer
            longest = max(
                (len(tokenizer.token_bytes(token)) for token in range(self._engine.vocab_size)), default=1
            )
            self._longest_token = longest = max(longest, 1)
        size = len(text.encode())
        limit = self._engine.max_model_len
        if size > longest * limit:
            least = -(-size // longest)
            raise _too_long(f"{param} has at least {least} tokens", limit, param)

    def _checked_length(self, ids: list[int], param: str) -> tuple[int, ...]:
        limit = self._engine.max_model_len
        if not ids:
            raise InvalidRequestError(f"{param} is empty; give at least one token.", param=param)
        if len(ids) >= limit:
            raise _too_long(f"{param} has {len(ids)} tokens", limit, param)
        return tuple(ids)


def check_room(prompt_tokens: int, max_tokens: int | None, limit: int, param: str) -> None:
    """Refuse a request whose prompt and output together cannot fit into `limit` tokens."""
    if max_tokens is not None and prompt_tokens + max_tokens > limit:
        raise _too_long(
            f"{param} has {prompt_tokens} tokens and max_tokens asks for {max_tokens}", limit, param
        )


def _too_long(what: str, limit: int, param: str) -> InvalidRequestError:
    message = (
        f"{what}; this model's context length is {limit} tokens, prompt and output together. Ask for less."
    )
    return InvalidRequestError(message, param=param, code="context_length_exceeded")


def _plain_message(message: Message, where: str) -> dict[str, Any]:
    """A message as templates expect it: the content as text."""
    if message.role not in ROLES:
        raise InvalidRequestError(
            f"{where}.role is {message.role[:40]!r}; it must be one of {', '.join(ROLES)}.",
            param=f"{where}.role",
        )
    plain: dict[str, Any] = {
        # Templates were written before the name "developer"; it means the same.
        "role": "system" if message.role == "developer" else message.role,
        "content": _text_content(message, where),
    }
    reasoning = message.reasoning if message.reasoning_content is None else message.reasoning_content
    for name, value in (
        ("name", message.name),
        ("tool_call_id", message.tool_call_id),
        ("reasoning_content", reasoning),
    ):
        if value is not None:
            plain[name] = value
    if message.tool_calls:
        check_calls(message.tool_calls, f"{where}.tool_calls")
        plain["tool_calls"] = message.tool_calls
    return plain


def _text_content(message: Message, where: str) -> str:
    content = message.content
    if content is None:
        if message.role in ("system", "developer", "user"):
            raise InvalidRequestError(f"{where}.content is missing; give a text.", param=f"{where}.content")
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for number, part in enumerate(content):
        param = f"{where}.content[{number}]"
        if part.type not in ("text", "input_text"):
            raise InvalidRequestError(
                f"{param} is of type {part.type[:40]!r}, which is not supported yet; send text only.",
                param=param,
            )
        if part.text is None:
            raise InvalidRequestError(f"{param}.text is missing; give a text.", param=f"{param}.text")
        texts.append(part.text)
    return "\n".join(texts)
