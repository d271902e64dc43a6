"""`tenfold serve`: the OpenAI-compatible server and its chat page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenfold.cli.options import ConfigOption, MaxModelLenOption, ModelArgument, ThreadsOption

if TYPE_CHECKING:
    from tenfold.config.load import Settings, Source

_ADDRESS = "Where it listens"
_ACCESS = "Who may ask"
_NAMES = "What clients see"
_ENGINE = "The engine"
_LOGS = "What is recorded"


def serve(
    model: ModelArgument = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on; 0.0.0.0 is every address of this machine.",
            show_default="127.0.0.1",
            rich_help_panel=_ADDRESS,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="Port; 0 takes a free one.",
            show_default="8000",
            rich_help_panel=_ADDRESS,
        ),
    ] = None,
    uds: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Unix socket to listen on instead of a port.", rich_help_panel=_ADDRESS
        ),
    ] = None,
    ssl_certfile: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Certificate and its chain, PEM; serves HTTPS.", rich_help_panel=_ADDRESS
        ),
    ] = None,
    ssl_keyfile: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Its private key, PEM.",
            show_default="in --ssl-certfile",
            rich_help_panel=_ADDRESS,
        ),
    ] = None,
    ssl_keyfile_password: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Password of the private key; better given as TENFOLD_SSL_KEYFILE_PASSWORD.",
            rich_help_panel=_ADDRESS,
        ),
    ] = None,
    ssl_ca_certs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Authorities, PEM; clients must show a certificate that one of them signed.",
            rich_help_panel=_ADDRESS,
        ),
    ] = None,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Accepted API key; may be given several times. None lets everyone in.",
            rich_help_panel=_ACCESS,
        ),
    ] = None,
    api_keys_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="TOML file of keys with scopes and limits; read again at SIGHUP.",
            rich_help_panel=_ACCESS,
        ),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Web origin whose pages may call, * for all; may be given several times.",
            rich_help_panel=_ACCESS,
        ),
    ] = None,
    served_model_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Name clients use for the model; may be given several times.",
            rich_help_panel=_NAMES,
        ),
    ] = None,
    chat_template: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="File with a Jinja chat template to use instead of the model's.",
            rich_help_panel=_NAMES,
        ),
    ] = None,
    tool_call_parser: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How the model writes tool calls: hermes (Qwen), llama3_json, mistral, glm45, kimi_k2, deepseek_v3, "
            "json (bare objects), or none to leave them in the text.",
            show_default="what the chat template asks for",
            rich_help_panel=_NAMES,
        ),
    ] = None,
    reasoning_parser: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How the model writes its reasoning: qwen3 (think tags), deepseek_r1 (the same, begun unasked), "
            "mistral, seed_oss, granite, or none to leave it in the content.",
            show_default="what the chat template has",
            rich_help_panel=_NAMES,
        ),
    ] = None,
    enable_auto_tool_choice: Annotated[
        bool,
        typer.Option(
            "--enable-auto-tool-choice",
            help="Changes nothing: the model may call tools as it is.",
            rich_help_panel=_NAMES,
        ),
    ] = True,
    threads: ThreadsOption = None,
    max_model_len: MaxModelLenOption = None,
    max_num_seqs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Sequences that run at once.",
            show_default="64",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Tokens computed in one step; bounds how long a prefill delays others.",
            show_default="512",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    block_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=16,
            help="Tokens a KV block; a multiple of 16.",
            show_default="16",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    kv_cache_memory_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Bytes for the KV cache.",
            show_default="at most 2 GiB",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    enable_prefix_caching: Annotated[
        bool | None,
        typer.Option(
            "--enable-prefix-caching/--no-enable-prefix-caching",
            help="Reuse KV blocks of equal prefixes.",
            show_default="on",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    max_waiting: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Requests that may wait; more get 429.",
            show_default="1024",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    log_format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="text, or json: one object a line.",
            show_default="text",
            rich_help_panel=_LOGS,
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="debug (with the scheduler's reasons), info, warning or error.",
            show_default="info",
            rich_help_panel=_LOGS,
        ),
    ] = None,
    access_log: Annotated[
        bool | None,
        typer.Option(
            "--access-log/--no-access-log",
            help="Log a line for each request: tokens and times, never contents.",
            show_default="on",
            rich_help_panel=_LOGS,
        ),
    ] = None,
    audit_log: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Append the same as JSON to a file; opened again at SIGHUP.",
            rich_help_panel=_LOGS,
        ),
    ] = None,
    otlp_traces_endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="OpenTelemetry collector that gets a trace of each request, by OTLP over HTTP.",
            rich_help_panel=_LOGS,
        ),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Where files, batches and responses are stored.",
            show_default="~/.local/state/tenfold",
            rich_help_panel=_LOGS,
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Serve MODEL over HTTP, with a chat page at /.

    The API is OpenAI's: /v1/chat/completions, /v1/completions, /v1/responses, /v1/models, /v1/files, /v1/batches;
    Anthropic's is at /v1/messages. There are /tokenize, /detokenize, /health, /version and /metrics too.

    \b
    Examples:
      tenfold serve
      tenfold serve model.gguf --port 9000 --api-key secret
      tenfold serve org/name:Q4_K_M --max-model-len 4096 --config tenfold.toml
      tenfold serve --ssl-certfile cert.pem --ssl-keyfile key.pem

    Then point any OpenAI client at http://127.0.0.1:8000/v1.

    Settings may also stand in the file of --config, or in the environment as TENFOLD_ and the name in capitals
    (TENFOLD_PORT=9000, TENFOLD_API_KEYS=one,two); flags win over the environment, which wins over the file.
    `tenfold config`, with the same flags, shows every setting and where it came from.
    """
    flags = dict(locals())  # first of all, while it holds nothing but the parameters
    from tenfold.cli.serving import run_server

    settings, sources = settings_of(flags)
    run_server(settings, sources)


def settings_of(given: Mapping[str, Any]) -> tuple[Settings, list[Source]]:
    """Settings from what was typed, by parameter of `serve`, and from the other layers; warns of stray variables."""
    import os

    from tenfold.cli.console import warn
    from tenfold.config.load import load_settings
    from tenfold.config.names import field_of, unknown_variables

    for sentence in unknown_variables(os.environ):
        warn(sentence)
    flags: dict[str, Any] = {}
    for name, value in given.items():
        field = field_of(name)
        if field is not None:
            flags[field] = (tuple(value) or None) if isinstance(value, list | tuple) else value
    config: Path | None = given["config"]
    return load_settings(flags, config_file=config)
