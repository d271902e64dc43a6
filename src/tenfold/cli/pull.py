"""`tenfold pull`: bring a model to this machine."""

from __future__ import annotations

import typer

from tenfold.cli.options import ModelArgument


def pull(model: ModelArgument = None) -> None:
    """Bring MODEL to this machine, and print its path.

    MODEL is a catalog name, whose file is checked against its sha256, or a hub id.
    """
    from tenfold.cli.loading import resolve_model

    typer.echo(resolve_model(model))
