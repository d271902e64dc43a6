"""What `tenfold serve` does once it knows its settings: load, listen, tell where."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path

import msgspec
import typer

from tenfold.checkpoints.catalog import DEFAULT_MODEL
from tenfold.cli.console import warn
from tenfold.cli.loading import resolve_model, shown_name
from tenfold.config.folders import state_folder
from tenfold.config.key_file import read_key_file
from tenfold.config.load import Settings, Source
from tenfold.config.server import ServerSettings
from tenfold.engine.async_engine import AsyncEngine
from tenfold.engine.model import Model, load_model
from tenfold.observe.logs import configure_logging
from tenfold.server.listener import close_listener, listen
from tenfold.server.run import run
from tenfold.server.tls import server_context
from tenfold.text.chat_template import ChatTemplate
from tenfold.text.parsers.registry import reasoning_format, tool_format


def run_server(settings: Settings, sources: list[Source]) -> None:
    """Take the address, find and load the model, serve until a stop signal.

    Args:
        settings: merged settings.
        sources: where those that are no defaults came from.
    """
    server = _with_data_folder(settings.server)
    configure_logging(server.log_format, server.log_level, access=server.access_log)
    model = settings.model
    # What is wrong with keys, certificates and parsers' names is told before a model is pulled and loaded, and so is a
    # taken port.
    if settings.server.api_keys_file is not None:
        read_key_file(Path(settings.server.api_keys_file))
    server_context(settings.server)
    tool_format(server.tool_call_parser, None)
    reasoning_format(server.reasoning_parser, None)
    listener = listen(settings.server)
    try:
        path = resolve_model(model)
        loaded = load_model(path, settings.engine)
        engine = AsyncEngine(loaded, _client_name(model, path))
        run(
            engine,
            server,
            listener=listener,
            on_ready=lambda address: _banner(
                shown_name(model, path), loaded, engine, server, sources, address
            ),
        )
    finally:
        close_listener(settings.server, listener)


def _with_data_folder(server: ServerSettings) -> ServerSettings:
    """With the user's folder for state where none is set; if that is not to be had, a warning and none."""
    if server.data_dir:
        return server
    folder = state_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        warn(
            f"{folder} cannot be written to: files and batches are not taken, responses kept in memory. "
            "--data-dir names another folder.",
        )
        return server
    return msgspec.structs.replace(server, data_dir=str(folder))


def _seconds_of_process() -> float:
    """Seconds since this process was started, imports included."""
    start_ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")


def _client_name(model: str | None, path: Path) -> str:
    """The name clients give: what the user typed, or of a path its last part without the file type."""
    if model is None:
        return DEFAULT_MODEL
    return path.name.removesuffix(".gguf") if Path(model).exists() else model


def _parsers_of(template: ChatTemplate | None) -> list[tuple[str, str, str]]:
    """The formats in which replies are read when no setting names one: setting, value, why."""
    source = None if template is None else template.source
    tools, reasoning = tool_format(None, source), reasoning_format(None, source)
    chosen = []
    if tools is not None:
        chosen.append(("tool_call_parser", tools.names[0], "as the chat template has tools called"))
    if reasoning is not None:
        chosen.append(("reasoning_parser", reasoning.names[0], "as the chat template has its tags"))
    return chosen


def _banner(
    shown: str,
    model: Model,
    engine: AsyncEngine,
    server: ServerSettings,
    sources: list[Source],
    address: str,
) -> None:
    name = server.served_model_names[0] if server.served_model_names else engine.model_name
    ready = f"Ready in {_seconds_of_process():.2f} s"
    typer.echo(
        f"{typer.style(ready, fg=typer.colors.GREEN, bold=True)}: {shown}, up to {engine.max_model_len} tokens."
    )
    given = {source.name for source in sources}
    for setting, value, why in (*model.chosen, *_parsers_of(model.chat_template)):
        if setting not in given:
            typer.secho(f"  {setting}: {value} ({why})", fg=typer.colors.BRIGHT_BLACK)
    for source in sources:
        if source.source != "flag":  # what was typed just now needs no telling
            typer.secho(
                f"  {source.name}: {source.shown} (from the {source.source})", fg=typer.colors.BRIGHT_BLACK
            )
    typer.echo(_how_to_ask(name, server, address))
    typer.echo("\n  Ctrl-C stops it; running requests finish first.")
    sys.stdout.flush()


def _how_to_ask(name: str, server: ServerSettings, address: str) -> str:
    """Where the page and the API are, and a command that tries it."""
    key = " -H 'Authorization: Bearer KEY'" if server.api_keys or server.api_keys_file else ""
    body = f'{{"model": "{name}", "stream": true, "messages": [{{"role": "user", "content": "Hello!"}}]}}'
    if server.uds is None:
        lines = [f"\n  Chat in a browser  {address}/", f"  OpenAI base URL    {address}/v1"]
        curl, base = "curl -N", address
    else:
        scheme = "https" if server.ssl_certfile else "http"
        lines = [f"\n  Unix socket        {server.uds}"]
        curl, base = f"curl -N --unix-socket {shlex.quote(server.uds)}", f"{scheme}://localhost"
    lines += [
        f"  Try it             {curl} {base}/v1/chat/completions -H 'Content-Type: application/json'{key} \\",
        f"                       -d '{body}'",
    ]
    return "\n".join(lines)
