"""`tenfold config`: every setting of the server, and where its value came from."""

from __future__ import annotations

import inspect
from typing import Any

from tenfold.cli.options import JsonOption
from tenfold.cli.serve import serve, settings_of


def config(json: JsonOption = False, **given: Any) -> None:
    """Show every setting of serve, and where it comes from.

    Takes the same flags and reads the same file and environment, but starts nothing. Flags win over the environment,
    which wins over the file of --config.

    \b
    Examples:
      tenfold config
      tenfold config --config tenfold.toml --port 9000 --json
    """
    from tenfold.cli.console import print_json, print_table
    from tenfold.config.load import every_value
    from tenfold.config.names import SECRETS

    found = every_value(*settings_of(given))
    if json:
        print_json(
            {
                each.name: {
                    "value": each.shown if each.name in SECRETS and each.value else each.value,
                    "source": each.source,
                }
                for each in found
            }
        )
        return
    print_table("", ["setting", "value", "from"], [[each.name, each.shown, each.source] for each in found])


def _with_flags_of_serve() -> inspect.Signature:
    own = inspect.signature(config, eval_str=True)
    flags = inspect.signature(serve, eval_str=True).parameters.values()
    return own.replace(parameters=[*flags, own.parameters["json"]])


config.__signature__ = _with_flags_of_serve()  # type: ignore[attr-defined]
