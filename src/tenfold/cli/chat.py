"""`tenfold chat`: a conversation in the terminal."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import aclosing, suppress
from typing import Any

import typer

from tenfold.cli.options import (
    MaxModelLenOption,
    MaxTokensOption,
    ModelArgument,
    SeedOption,
    TemperatureOption,
    ThreadsOption,
    TopPOption,
)


def chat(
    model: ModelArgument = None,
    system: str = typer.Option("", "--system", "-s", metavar="TEXT", help="System prompt."),
    max_tokens: MaxTokensOption = 512,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    seed: SeedOption = None,
    threads: ThreadsOption = None,
    max_model_len: MaxModelLenOption = None,
) -> None:
    """Talk with MODEL in the terminal.

    /reset starts over, /exit or Ctrl-D leaves, Ctrl-C stops an answer.
    """
    from tenfold.cli.loading import resolve_model, shown_name
    from tenfold.engine.llm import LLM

    path = resolve_model(model)
    llm = LLM(str(path), threads=threads, max_model_len=max_model_len, max_num_seqs=1)
    params = llm.sampling_params(temperature=temperature, top_p=top_p, seed=seed)
    with suppress(ImportError):  # not every Python has it
        import readline  # noqa: F401  # gives input() line editing and a history
    head = [{"role": "system", "content": system}] if system else []
    messages: list[dict[str, str]] = list(head)
    typer.secho(f"{shown_name(model, path)}; /reset starts over, /exit leaves", fg=typer.colors.BRIGHT_BLACK)
    while True:
        try:
            text = input("you> " if sys.stdin.isatty() else "")
        except (KeyboardInterrupt, EOFError):
            typer.echo()
            return
        if not text.strip():
            continue
        if text.strip() in ("/exit", "/quit"):
            return
        if text.strip() == "/reset":
            messages = list(head)
            continue
        messages.append({"role": "user", "content": text})
        messages.append({"role": "assistant", "content": _answer(llm, messages, params, max_tokens)})


def _answer(llm: Any, messages: list[dict[str, str]], params: Any, max_tokens: int) -> str:
    parts: list[str] = []

    async def run() -> None:
        begin = time.perf_counter()
        first, tokens = begin, 0
        cached = ""
        async with aclosing(llm.stream(messages, params)) as outputs:
            async for output in outputs:
                first = time.perf_counter() if tokens == 0 else first
                tokens = output.completion_tokens
                cached = f", {output.cached_tokens} of {output.prompt_tokens} prompt tokens cached"
                parts.append(output.text)
                typer.echo(output.text, nl=False)
                if tokens >= max_tokens:
                    break
        rate = (tokens - 1) / max(time.perf_counter() - first, 1e-9) if tokens > 1 else 0.0
        note = f"[{tokens} tokens, {rate:.0f}/s, TTFT {1000 * (first - begin):.0f} ms{cached}]"
        typer.secho(f"\n{note}", fg=typer.colors.BRIGHT_BLACK)

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        typer.echo(" [stopped]")
    return "".join(parts)
