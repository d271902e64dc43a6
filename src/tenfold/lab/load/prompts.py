"""The prompts of a load: random words, or lines of a JSONL file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec

from tenfold.core.errors import TenfoldError
from tenfold.lab.load.settings import LoadSettings

# Short common words: one token each in most vocabularies.
_TEXT = (
    "the of and to in is was for that with as his on be at by had not are but from or have an they "
    "which one you were all her she there would their we him been has when who will no more if out so "
    "up said what its about than into them can only other time new some could these two may first "
    "then do any like my now over such our man me even most made after also well many must before "
    "back through years where much your way down should because long each just state those people too "
    "world year good day life work part place house water night school hand line city land river "
    "light music table paper stone bread garden winter summer open close hold read write walk carry "
    "small large early late white black green north south east west half whole under above between "
    "during again "
)
_WORDS = _TEXT.split()


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One request's input: text or messages, and how many tokens to ask for (None: the load's output_len)."""

    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    max_tokens: int | None = None


class _Line(msgspec.Struct, frozen=True):
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    max_tokens: int | None = None
    output_len: int | None = None


def make_prompts(settings: LoadSettings) -> list[Prompt]:
    """The load's prompts, one a request; same seed, same prompts.

    Raises:
        TenfoldError: the dataset cannot be read.
    """
    if settings.dataset is not None:
        known = read_dataset(settings.dataset, settings.endpoint)
        return [known[i % len(known)] for i in range(settings.num_requests)]
    chooser = random.Random(f"prompts {settings.seed}")
    return [
        Prompt(prompt=" ".join(chooser.choices(_WORDS, k=settings.prompt_len)))
        for _ in range(settings.num_requests)
    ]


def read_dataset(file: Path, endpoint: str) -> list[Prompt]:
    """Read lines of {"prompt": text} or {"messages": [...]}, with an optional "max_tokens" ("output_len").

    Raises:
        TenfoldError: the file cannot be read, a line is neither, or it is empty.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as problem:
        raise TenfoldError(f"The dataset {file} cannot be read: {problem.strerror}.") from None
    prompts = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = msgspec.json.decode(text, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise TenfoldError(f"The dataset {file}, line {number}, cannot be used: {problem}.") from None
        if (line.prompt is None) == (line.messages is None):
            raise TenfoldError(
                f'The dataset {file}, line {number}, must have "prompt" or "messages", and one of them only.'
            )
        if line.messages is not None and endpoint == "completions":
            raise TenfoldError(
                f"The dataset {file}, line {number}, has messages; use --endpoint chat for it."
            )
        prompts.append(
            Prompt(prompt=line.prompt, messages=line.messages, max_tokens=line.max_tokens or line.output_len)
        )
    if not prompts:
        raise TenfoldError(f"The dataset {file} has no lines.")
    return prompts


def request_body(prompt: Prompt, settings: LoadSettings, model: str) -> bytes:
    """The JSON body of a streaming request."""
    body: dict[str, Any] = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": prompt.max_tokens or settings.output_len,
        "temperature": settings.temperature,
    }
    if settings.ignore_eos:
        body["ignore_eos"] = True
    if settings.endpoint == "chat":
        body["messages"] = prompt.messages or [{"role": "user", "content": prompt.prompt}]
    else:
        body["prompt"] = prompt.prompt
    return msgspec.json.encode(body)
