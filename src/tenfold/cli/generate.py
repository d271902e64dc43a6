"""`tenfold generate`: complete one prompt and print it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import typer

from tenfold.cli.options import (
    JsonOption,
    MaxModelLenOption,
    MaxTokensOption,
    ModelOption,
    SeedOption,
    TemperatureOption,
    ThreadsOption,
    TopPOption,
)


def generate(
    prompt: str = typer.Argument(..., metavar="PROMPT", help="The prompt; - reads standard input."),
    model: ModelOption = None,
    max_tokens: MaxTokensOption = 128,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    seed: SeedOption = None,
    chat: bool = typer.Option(False, "--chat", help="Put the prompt through the model's chat template."),
    ignore_eos: bool = typer.Option(False, "--ignore-eos", help="Do not stop at end tokens."),
    threads: ThreadsOption = None,
    max_model_len: MaxModelLenOption = None,
    json: JsonOption = False,
) -> None:
    """Complete PROMPT with MODEL.

    \b
    Examples:
      tenfold generate "The capital of France is" --max-tokens 8 --temperature 0
      tenfold generate --chat --json - <question.txt
    """
    from tenfold.cli.console import print_json
    from tenfold.cli.loading import resolve_model
    from tenfold.engine.llm import LLM

    text = sys.stdin.read() if prompt == "-" else prompt
    llm = LLM(str(resolve_model(model)), threads=threads, max_model_len=max_model_len, max_num_seqs=1)
    params = llm.sampling_params(
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        ignore_eos=ignore_eos,
    )
    message: list[Any] = [{"role": "user", "content": text}]
    if json:
        print_json(llm.chat(message, params) if chat else llm.generate(text, params))
        return

    async def run() -> None:
        async for output in llm.stream(message if chat else text, params):
            typer.echo(output.text, nl=False)
        typer.echo()

    asyncio.run(run())
