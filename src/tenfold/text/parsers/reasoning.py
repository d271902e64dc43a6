"""What a model thinks before it answers, between two tags."""

from __future__ import annotations

from dataclasses import dataclass

from tenfold.text.parsers.events import Sink
from tenfold.text.parsers.reader import Reader, Steps


@dataclass(frozen=True)
class ReasoningFormat:
    """How a family of models writes its reasoning.

    Args:
        names: what the format is called on the command line; the first is shown.
        opening: begins the reasoning, at the beginning of the completion, or at the end of the prompt where the
            template writes it.
        closing: ends it.
        implied: the completion begins inside the reasoning even if nothing opened it.
    """

    names: tuple[str, ...]
    opening: str
    closing: str
    implied: bool = False

    @property
    def marks(self) -> tuple[str, str]:
        """What in the text may be a special token."""
        return self.opening, self.closing

    def fits(self, template: str) -> bool:
        """Whether a chat template has these tags."""
        return self.closing in template

    def is_open(self, prompt: str) -> bool | None:
        """Whether a completion of this prompt begins inside the reasoning; None when the completion will tell.

        Args:
            prompt: the end of the prompt's text.
        """
        end = prompt.rstrip()
        if end.endswith(self.opening):
            return True
        if end.endswith(self.closing):
            return False
        return True if self.implied else None


FORMATS = (
    ReasoningFormat(("qwen3", "glm45", "kimi_k2", "granite4", "think"), "<think>", "</think>"),
    ReasoningFormat(("deepseek_r1", "step3"), "<think>", "</think>", implied=True),
    ReasoningFormat(("mistral",), "[THINK]", "[/THINK]"),
    ReasoningFormat(("seed_oss",), "<seed:think>", "</seed:think>"),
    ReasoningFormat(("granite",), "Here is my thought process:", "Here is my response:"),
)


def read_reasoning(reader: Reader, sink: Sink, form: ReasoningFormat, is_open: bool | None) -> Steps[bool]:
    """Read the reasoning, if the text begins with it; False when the text ended inside.

    Only the first closing tag counts: in the answer, tags are words like others.
    """
    reader.record()
    yield from reader.blanks()
    opened = yield from reader.take(form.opening)
    if not opened and not is_open:
        reader.rewind()
        return True
    reader.recorded()
    closing = reader.tags(form.closing)
    if (yield from reader.opener(closing, sink.reasoning)) is None:
        return False
    sink.end_reasoning()
    yield from reader.blanks()
    return True
