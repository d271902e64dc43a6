"""What the server asks of an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tenfold.core.request import Request, RequestOutput
from tenfold.core.stats import EngineStats
from tenfold.core.structured_output import StructuredOutput
from tenfold.text.chat_template import ChatTemplate
from tenfold.text.tokenizer import Tokenizer


class Engine(Protocol):
    """An engine as the server sees it."""

    @property
    def model_name(self) -> str:
        """The model's own name."""

    @property
    def max_model_len(self) -> int:
        """Most tokens of prompt and output together."""

    @property
    def max_waiting(self) -> int:
        """Sequences that may wait; more are refused."""

    @property
    def vocab_size(self) -> int:
        """Token ids lie below this; it may be more than the tokenizer knows."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""

    @property
    def chat_template(self) -> ChatTemplate | None:
        """The model's chat template, if it has one."""

    @property
    def generation_defaults(self) -> Mapping[str, float | int]:
        """Sampling parameters the model's makers recommend, by SamplingParams's names."""

    def compile_structured(self, structured: StructuredOutput) -> None:
        """Compile what a request wants, ahead of it; called in any thread, as it may take long.

        Raises InvalidRequestError when it cannot be compiled.
        """

    def listen(self, request: Request, hear: Callable[[list[RequestOutput]], None]) -> Callable[[], None]:
        """Run a request; returns a function that aborts it, harmless after the end.

        `hear` is called in the event loop with all that a step added, until each completion had its last output; a
        failure is a last output too. Raises OverloadedError or InvalidRequestError, or EngineError of a dead engine.
        """

    async def start(self) -> None:
        """Get ready to take requests."""

    async def drain(self, timeout: float) -> bool:
        """Take no new requests and wait for the running ones; False when `timeout` seconds pass first."""

    async def stop(self) -> None:
        """End what still runs, with an error, and free everything; may be called again."""

    def stats(self) -> EngineStats:
        """Counters and gauges of this moment."""
