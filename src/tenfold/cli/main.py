"""`tenfold`: one file a command; each imports what it needs only when it runs."""

from __future__ import annotations

import sys

import typer

from tenfold import __version__
from tenfold.cli import bench, chat, config, doctor, generate, inspect, models, profile, pull, serve
from tenfold.cli.console import fail
from tenfold.cli.grouped_help import GroupedCommand
from tenfold.core.errors import TenfoldError

app = typer.Typer(
    name="tenfold",
    help="Serve open-weight language models from this machine.\n\n"
    "MODEL is everywhere a catalog name (tenfold models), a GGUF file, a Hugging Face folder or a hub id; left out, "
    "it is smollm2.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes would cut long flags short, and [engine] would be taken for markup
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command(cls=GroupedCommand)(serve.serve)
app.command(cls=GroupedCommand)(config.config)
app.command()(chat.chat)
app.command()(generate.generate)
app.command()(pull.pull)
app.command()(models.models)
app.command()(inspect.inspect)
app.command()(doctor.doctor)
app.command()(profile.profile)
app.add_typer(bench.app, name="bench")


def _version(show: bool) -> None:
    if show:
        typer.echo(f"tenfold {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    del version


def main() -> None:
    """Run the command line; a TenfoldError becomes a sentence on stderr and exit code 1."""
    try:
        app(prog_name="tenfold")
    except TenfoldError as problem:
        sys.exit(fail(str(problem)))
    except BrokenPipeError:
        sys.exit(0)
