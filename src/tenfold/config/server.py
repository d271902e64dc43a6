"""Settings of the HTTP server."""

from __future__ import annotations

import msgspec

MIB = 1 << 20


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the HTTP server may be told.

    Args:
        host: address to listen on.
        port: TCP port; 0 takes any free one.
        uds: path of a Unix socket to listen on instead of host and port.
        uds_mode: mode bits of that socket, in octal digits.
        ssl_certfile: PEM file with the certificate and those between it and the root; serves HTTPS.
        ssl_keyfile: PEM file with its private key; None looks in ssl_certfile.
        ssl_keyfile_password: of the private key, if it is encrypted.
        ssl_ca_certs: PEM file of authorities; clients must then show a certificate signed by one of them.
        api_keys: accepted Bearer keys; empty lets everyone in, unless there is an api_keys_file.
        api_keys_file: TOML file of keys with scopes and limits; see tenfold.config.key_file.
        served_model_names: names that requests may give for the model, the first one shown in replies;
            empty takes the engine's own name.
        tool_call_parser: how the model writes tool calls ("none" reads none); None takes what its chat template asks
            for.
        reasoning_parser: how the model writes its reasoning ("none" leaves it in the content); None takes what its
            chat template has.
        max_body_bytes: longest accepted request body.
        max_pending_body_bytes: bytes of request bodies held in memory at once, over all requests.
        body_timeout_s: seconds a client may take to send its body.
        max_prompts: prompts in one /v1/completions request, and completions (prompts times n) if above 64.
        cors_origins: web origins allowed to call from a browser; ("*",) allows all.
        shutdown_timeout_s: seconds running requests get to finish after a stop signal.
        log_format: "text" for people or "json" for programs, one object a line.
        log_level: "debug", "info", "warning" or "error".
        access_log: log a line for each request, without its contents.
        otlp_traces_endpoint: URL of an OpenTelemetry collector (OTLP over HTTP) that gets a trace of each request.
        audit_log: file that gets the same as JSON, a line a request, appended.
        data_dir: folder for what outlives a server (files, batches, responses); empty takes no files and no batches,
            and keeps responses in memory.
        max_file_bytes: longest accepted file.
        max_files: files kept at once, outputs of batches not counted in.
        max_batches: batches that may be unfinished at once.
        batch_concurrency: requests of batches that run at once; never more than half of the engine's queue.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    uds: str | None = None
    uds_mode: str = "660"
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_keyfile_password: str | None = None
    ssl_ca_certs: str | None = None
    api_keys: tuple[str, ...] = ()
    api_keys_file: str | None = None
    served_model_names: tuple[str, ...] = ()
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    max_body_bytes: int = 16 * MIB
    max_pending_body_bytes: int = 256 * MIB
    body_timeout_s: float = 60.0
    max_prompts: int = 256
    cors_origins: tuple[str, ...] = ()
    shutdown_timeout_s: float = 30.0
    log_format: str = "text"
    log_level: str = "info"
    access_log: bool = True
    audit_log: str | None = None
    otlp_traces_endpoint: str | None = None
    data_dir: str = ""
    max_file_bytes: int = 200 * MIB
    max_files: int = 1000
    max_batches: int = 100
    batch_concurrency: int = 16
