"""`tenfold serve`: the OpenAI-compatible server and its chat page."""

from __future__ import annotations

from typing import Annotated

import typer

from tenfold.cli.options import ConfigOption, MaxModelLenOption, ModelArgument, ThreadsOption


def serve(
    model: ModelArgument = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=65535, help="Port; 0 takes a free one.", show_default="8000"),
    ] = None,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY", help="Accepted API key; may be given several times. None lets everyone in."
        ),
    ] = None,
    served_model_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name clients use for the model; may be given several times."),
    ] = None,
    threads: ThreadsOption = None,
    max_model_len: MaxModelLenOption = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Sequences that run at once.", show_default="64")
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Tokens computed in one step; bounds how long a prefill delays others.",
            show_default="512",
        ),
    ] = None,
    block_size: Annotated[
        int | None,
        typer.Option(metavar="N", min=16, help="Tokens a KV block; a multiple of 16.", show_default="16"),
    ] = None,
    kv_cache_memory_bytes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Bytes for the KV cache.", show_default="at most 2 GiB"),
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
        int | None,
        typer.Option(metavar="N", min=1, help="Requests that may wait; more get 429.", show_default="1024"),
    ] = None,
    chat_template: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File with a Jinja chat template to use instead of the model's."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Serve MODEL over HTTP, with a chat page at /.

    The API is OpenAI's: /v1/chat/completions, /v1/completions, /v1/models. There are /tokenize, /detokenize, /health,
    /version and /metrics too.

    \b
    Examples:
      tenfold serve
      tenfold serve model.gguf --port 9000 --api-key secret
      tenfold serve org/name:Q4_K_M --max-model-len 4096 --config tenfold.toml

    Then point any OpenAI client at http://127.0.0.1:8000/v1.

    Settings may also stand in the file of --config, or in the environment as TENFOLD_ and the name in capitals
    (TENFOLD_PORT=9000, TENFOLD_API_KEYS=one,two); flags win over the environment, which wins over the file.
    """
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
    settings, sources = load_settings(flags, config_file=config)
    run_server(model, settings, sources)
