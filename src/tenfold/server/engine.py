"""What the server asks of an engine, its tokenizer and its chat template."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from tenfold.core.request import Request, RequestOutput
from tenfold.observe.metrics import EngineStats


class Tokenizer(Protocol):
    """Text to token ids and back; safe to call from several threads."""

    def encode(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Token ids of `text`.

        Args:
            text: any text.
            add_special: put the model's begin token before it, where the model has one.
            parse_special: read special tokens written in the text as such.
        """

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """The text of `ids`."""

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that one token adds to the text; may be part of a character."""

    def token_text(self, token_id: int) -> str:
        """The token as its vocabulary writes it."""


class ChatTemplate(Protocol):
    """Renders messages into the model's prompt format."""

    def render(
        self,
        messages: list[dict[str, Any]],
        *,
        tools: list[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **kwargs: Any,
    ) -> str:
        """The prompt's text, special tokens included; InvalidRequestError when the template refuses."""


class Engine(Protocol):
    """An engine as the server sees it."""

    @property
    def model_name(self) -> str:
        """The model's own name."""

    @property
    def max_model_len(self) -> int:
        """Most tokens of prompt and output together."""

    @property
    def vocab_size(self) -> int:
        """Token ids lie below this."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""

    @property
    def chat_template(self) -> ChatTemplate | None:
        """The model's chat template, if it has one."""

    @property
    def generation_defaults(self) -> Mapping[str, float | int]:
        """Sampling parameters the model's makers recommend, by SamplingParams's names."""

    def generate(self, request: Request) -> AsyncIterator[RequestOutput]:
        """Run a request; closing the iterator, or cancelling its reader, aborts it.

        Raises OverloadedError or InvalidRequestError before the first output, EngineError at any time.
        """

    async def start(self) -> None:
        """Get ready to take requests."""

    async def drain(self, timeout: float) -> None:
        """Take no new requests; return when the running ones ended; abort them after `timeout` seconds."""

    async def stop(self) -> None:
        """Free everything."""

    def stats(self) -> EngineStats:
        """Counters and gauges of this moment."""
