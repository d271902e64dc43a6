"""`tenfold inspect`: a model's Program, bytes per part, KV bytes per token."""

from __future__ import annotations

import typer

from tenfold.cli.options import JsonOption, ModelArgument


def inspect(
    model: ModelArgument = None,
    ops: bool = typer.Option(False, "--ops", help="Print every op instead of one of each repeated layer."),
    json: JsonOption = False,
) -> None:
    """Show MODEL's Program: its ops, the bytes of each part, and the KV bytes a token takes. Loads no weights."""
    from tenfold.cli.console import print_json
    from tenfold.cli.inspecting import describe_model, print_description
    from tenfold.cli.loading import resolve_model

    description = describe_model(resolve_model(model))
    if json:
        print_json(description)
    else:
        print_description(description, all_ops=ops)
