"""`tenfold models`: the catalog, and what is on this machine."""

from __future__ import annotations

from typing import Any

import typer

from tenfold.cli.options import JsonOption


def models(json: JsonOption = False) -> None:
    """List the models with a name of their own, and where they are."""
    from tenfold.checkpoints.cache import installed_models
    from tenfold.checkpoints.catalog import CATALOG
    from tenfold.cli.console import print_json

    here = {model.name: str(model.path) for model in installed_models()}
    found: list[dict[str, Any]] = [
        {"name": name, "summary": entry.summary, "bytes": entry.size, "path": here.get(name)}
        for name, entry in sorted(CATALOG.items())
    ]
    if json:
        print_json(found)
        return
    # No table: a path that is cut or folded cannot be copied.
    for model in found:
        size = f"{model['bytes'] / 1e6:.0f} MB"
        typer.echo(f"{typer.style(model['name'], bold=True)}  {model['summary']}, {size}")
        typer.echo(f"  {model['path'] or 'not here; tenfold pull ' + model['name']}")
