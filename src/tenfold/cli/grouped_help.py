"""Help whose options stand under headings, for commands that have many."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

_OTHERS = "Options"


class GroupedCommand(TyperCommand):
    """Prints options under their rich_help_panel as a plain heading; boxes would cut long flags short."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then each group in the order in which its first option was declared."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None:
                argument = parameter.param_type_name == "argument"
                heading = "Arguments" if argument else getattr(parameter, "rich_help_panel", None) or _OTHERS
                groups.setdefault(heading, []).append(row)
        if _OTHERS in groups:
            groups[_OTHERS] = groups.pop(_OTHERS)  # last: --help and what has no heading
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl(rows)
