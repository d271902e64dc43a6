"""`tenfold models`: the catalog, and what is on this machine."""

from __future__ import annotations

from tenfold.cli.options import JsonOption


def models(json: JsonOption = False) -> None:
    """List the catalog and the models on this machine."""
    from tenfold.checkpoints.cache import installed_models
    from tenfold.checkpoints.catalog import CATALOG
    from tenfold.cli.console import print_json, print_table

    here = {model.name: str(model.path) for model in installed_models()}
    found = [
        {"name": name, "summary": entry.summary, "bytes": entry.size, "path": here.get(name)}
        for name, entry in sorted(CATALOG.items())
    ]
    if json:
        print_json(found)
        return
    rows = [
        [name, entry.summary, f"{entry.size / 1e6:.0f} MB", here.get(name, f"not here; tenfold pull {name}")]
        for name, entry in sorted(CATALOG.items())
    ]
    print_table("", ["name", "what", "size", "where"], rows, right=(2,))
