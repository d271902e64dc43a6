"""TLS: the server's certificate, and whose clients' certificates it wants."""

from __future__ import annotations

import ssl

from tenfold.config.server import ServerSettings
from tenfold.core.errors import TenfoldError


def server_context(settings: ServerSettings) -> ssl.SSLContext | None:
    """The context for HTTPS, of TLS 1.2 or newer; None when the settings name no certificate.

    Raises TenfoldError when a file cannot be used.
    """
    if settings.ssl_certfile is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, settings)
    if settings.ssl_ca_certs is not None:
        try:
            context.load_verify_locations(settings.ssl_ca_certs)
        except (OSError, ssl.SSLError) as problem:
            raise TenfoldError(_unreadable("authorities", settings.ssl_ca_certs, problem)) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def load_certificate(context: ssl.SSLContext, settings: ServerSettings) -> None:
    """Read certificate and key into the context; connections that come later get them.

    Raises TenfoldError, and changes nothing, when a file cannot be used.
    """
    assert settings.ssl_certfile is not None
    asked: list[str] = []

    def password() -> str:
        """Of an encrypted key; without it OpenSSL would ask at the terminal."""
        if settings.ssl_keyfile_password is None:
            raise TenfoldError(
                "The private key is encrypted; give its password (TENFOLD_SSL_KEYFILE_PASSWORD in the environment)."
            )
        asked.append(settings.ssl_keyfile_password)
        return settings.ssl_keyfile_password

    # A trial first: a key that does not fit is noticed only after the certificate was replaced.
    for each in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
        try:
            each.load_cert_chain(settings.ssl_certfile, settings.ssl_keyfile, password)
        except (OSError, ssl.SSLError) as problem:
            files = settings.ssl_certfile
            if settings.ssl_keyfile is not None:
                files += f" with the key {settings.ssl_keyfile}"
            if asked and getattr(problem, "reason", None) is None:
                raise TenfoldError(
                    f"The TLS certificate {files} cannot be used: the password is wrong."
                ) from None
            raise TenfoldError(_unreadable("certificate", files, problem)) from None


def _unreadable(what: str, files: str, problem: OSError) -> str:
    if isinstance(problem, ssl.SSLError):
        mismatch = problem.reason == "KEY_VALUES_MISMATCH"
        why = (
            "the private key belongs to another certificate"
            if mismatch
            else "that is no PEM file of this kind"
        )
    else:
        why = problem.strerror or str(problem)
    return f"The TLS {what} {files} cannot be used: {why}."
