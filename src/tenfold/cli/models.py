"""`tenfold models`: the catalog, and what is on this machine."""

from __future__ import annotations

from tenfold.cli.options import JsonOption


def models(json: JsonOption = False) -> None:
    """List the catalog and the models on this machine."""
    from tenfold.checkpoints.resolve import installed_models
    from tenfold.cli.console import print_json, print_table

    found = installed_models()
    if json:
        print_json(found)
        return
    rows = [
        [
            entry.name,
            entry.description,
            f"{entry.bytes / 1e6:.0f} MB",
            str(entry.path) if entry.path else "tenfold pull",
        ]
        for entry in found
    ]
    print_table("", ["name", "what", "size", "where"], rows, right=(2,))
