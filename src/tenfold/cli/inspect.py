"""`tenfold inspect`: a model's Program, bytes per part, KV bytes per token."""

from __future__ import annotations

import typer

from tenfold.cli.options import JsonOption, ModelArgument


def inspect(model: ModelArgument = None, json: JsonOption = False) -> None:
    """Show MODEL's Program, and the bytes of each part.

    The Program is the list of ops that computes a token. KV bytes a token and FLOPs a token are shown too. Loads no
    weights.
    """
    from tenfold.cli.console import print_json
    from tenfold.cli.loading import resolve_model
    from tenfold.engine.model import open_model
    from tenfold.program.describe import describe, describe_lines

    checkpoint, program = open_model(resolve_model(model))
    stored = {name: tensor.data.nbytes for name, tensor in checkpoint.tensors.items()}
    summary = describe(program, stored)
    if json:
        print_json(summary)
    else:
        typer.echo("\n".join(describe_lines(summary)))
