"""`tenfold serve`: the OpenAI-compatible server and its chat page."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tenfold.cli.options import ConfigOption, MaxModelLenOption, ModelArgument, ThreadsOption


def serve(
    model: ModelArgument = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.", show_default="8000")
    ] = None,
    api_key: Annotated[
        list[str] | None, typer.Option(help="Accepted API key; may be given several times.")
    ] = None,
    served_model_name: Annotated[
        list[str] | None, typer.Option(help="Name clients use for the model.")
    ] = None,
    threads: ThreadsOption = None,
    max_model_len: MaxModelLenOption = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(min=1, help="Sequences that run at once.", show_default="64")
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens computed in one step.", show_default="512")
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(min=16, help="Tokens a KV block; a multiple of 16.", show_default="16")
    ] = None,
    kv_cache_memory_bytes: Annotated[
        int | None, typer.Option(min=1, help="Bytes for the KV cache.", show_default="at most 2 GiB")
    ] = None,
    enable_prefix_caching: Annotated[
        bool | None,
        typer.Option(
            "--enable-prefix-caching/--no-enable-prefix-caching",
            help="Reuse KV blocks of equal prefixes.",
            show_default="on",
        ),
    ] = None,
    max_waiting: Annotated[
        int | None, typer.Option(min=0, help="Requests that may wait; more get 429.", show_default="1024")
    ] = None,
    chat_template: Annotated[
        str | None, typer.Option(help="File with a Jinja chat template to use instead of the model's.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Serve MODEL over HTTP: /v1/chat/completions, /v1/completions, /metrics, and a chat page at /.

    Example: tenfold serve smollm2 --port 8000, then point any OpenAI client at http://127.0.0.1:8000/v1.
    """
    started = time.perf_counter()
    from tenfold.cli.loading import resolve_model
    from tenfold.cli.serving import run_server
    from tenfold.config.load import load_settings

    flags = {
        "host": host,
        "port": port,
        "api_keys": tuple(api_key) if api_key else None,
        "served_model_names": tuple(served_model_name) if served_model_name else None,
        "threads": threads,
        "max_model_len": max_model_len,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
        "block_size": block_size,
        "kv_cache_memory_bytes": kv_cache_memory_bytes,
        "enable_prefix_caching": enable_prefix_caching,
        "max_waiting": max_waiting,
        "chat_template": chat_template,
    }
    settings, _ = load_settings(flags, config_file=config)
    run_server(model, resolve_model(model), settings, started)
