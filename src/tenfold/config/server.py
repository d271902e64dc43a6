"""Settings of the HTTP server."""

from __future__ import annotations

import msgspec

MIB = 1 << 20


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the HTTP server may be told.

    Args:
        host: address to listen on.
        port: TCP port; 0 takes any free one.
        api_keys: accepted Bearer keys; empty lets everyone in.
        served_model_names: names that requests may give for the model, the first one shown in replies;
            empty takes the engine's own name.
        max_body_bytes: longest accepted request body.
        max_pending_body_bytes: bytes of request bodies held in memory at once, over all requests.
        body_timeout_s: seconds a client may take to send its body.
        max_prompts: prompts in one /v1/completions request, and completions (prompts times n) if above 64.
        cors_origins: web origins allowed to call from a browser; ("*",) allows all.
        shutdown_timeout_s: seconds running requests get to finish after a stop signal.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: tuple[str, ...] = ()
    served_model_names: tuple[str, ...] = ()
    max_body_bytes: int = 16 * MIB
    max_pending_body_bytes: int = 256 * MIB
    body_timeout_s: float = 60.0
    max_prompts: int = 256
    cors_origins: tuple[str, ...] = ()
    shutdown_timeout_s: float = 30.0
