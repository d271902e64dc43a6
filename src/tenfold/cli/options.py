"""Arguments and options that several commands share, so that they read and behave the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="Catalog name, GGUF file, Hugging Face folder or hub id.",
        show_default="smollm2",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        help="Catalog name, GGUF file, Hugging Face folder or hub id.",
        show_default="smollm2",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        "-t",
        metavar="N",
        min=1,
        help="Compute threads.",
        show_default="all CPUs",
        rich_help_panel="The engine",
    ),
]
MaxModelLenOption = Annotated[
    int | None,
    typer.Option(
        "--max-model-len",
        metavar="N",
        min=1,
        help="Longest prompt plus output, in tokens.",
        show_default="the model's",
        rich_help_panel="The engine",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="TENFOLD_CONFIG",
        show_envvar=False,
        help="TOML file of settings, named like these flags, or in tables [engine] and [server].",
    ),
]
MaxTokensOption = Annotated[
    int, typer.Option("--max-tokens", "-n", metavar="N", min=1, help="Longest answer, in tokens.")
]
TemperatureOption = Annotated[
    float | None,
    typer.Option("--temperature", metavar="X", min=0.0, help="0 is greedy.", show_default="the model's"),
]
TopPOption = Annotated[
    float | None,
    typer.Option(
        "--top-p", metavar="X", min=0.0, max=1.0, help="Nucleus sampling.", show_default="the model's"
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="Same seed, same text.", show_default="random"),
]
