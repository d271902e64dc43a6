"""`tenfold pull`: bring a model to this machine."""

from __future__ import annotations

import typer

from tenfold.cli.options import ModelArgument


def pull(model: ModelArgument = None) -> None:
    """Bring MODEL (a catalog name or hub id) to this machine, checked by sha256 where it is known; prints its path."""
    from tenfold.cli.loading import resolve_model

    typer.echo(resolve_model(model))
