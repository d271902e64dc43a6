"""The file of API keys: who may ask for what, and how much."""

from __future__ import annotations

import hashlib
import re
import stat
from pathlib import Path
from typing import Literal

import msgspec

from tenfold.config.names import suggestion
from tenfold.core.errors import TenfoldError

MAX_FILE_BYTES = 1 << 20
# Each one is compared with what a request brings.
MAX_KEYS = 1000
Scope = Literal["inference", "metrics", "admin"]
SCOPES: tuple[Scope, ...] = ("inference", "metrics", "admin")
_MAX_LIMIT = 10**12


class KeyEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One accepted key.

    Args:
        name: tells keys apart in logs; letters, digits, dot, dash and underscore.
        digest: SHA-256 of the key's UTF-8 bytes.
        scopes: "inference" asks for text, "metrics" reads /metrics, "admin" may do everything.
        requests_per_minute: None is unlimited, as of the others.
        tokens_per_minute: of prompts and outputs together.
        max_concurrent_requests: requests that run at once.
    """

    name: str
    digest: bytes
    scopes: tuple[Scope, ...] = ("inference",)
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrent_requests: int | None = None


class _Written(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A key as the file has it."""

    name: str
    key: str | None = None
    sha256: str | None = None
    scopes: list[str] = msgspec.field(default_factory=lambda: ["inference"])
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrent_requests: int | None = None


_LIMITS = ("requests_per_minute", "tokens_per_minute", "max_concurrent_requests")


def key_digest(key: str) -> bytes:
    """What is kept of a key: long random keys need no slower hash than SHA-256."""
    return hashlib.sha256(key.encode()).digest()


def read_key_file(path: Path) -> tuple[list[KeyEntry], list[str]]:
    """Read keys from TOML, each in a table [[keys]].

    Returns:
        The keys, and warnings: a file that other users may read or write.

    Raises:
        TenfoldError: the file cannot be read, or says something that has no meaning.
    """
    data, warnings = _read(path)
    tables = data.get("keys")
    unknown = sorted(set(data) - {"keys"})
    if unknown or not isinstance(tables, list) or not tables:
        has = f" has {unknown[0]!r} and" if unknown else ""
        raise TenfoldError(
            f"The key file {path}{has} must hold one table [[keys]] or more, and nothing else."
        )
    if len(tables) > MAX_KEYS:
        raise TenfoldError(f"The key file {path} has {len(tables)} keys; the limit is {MAX_KEYS}.")
    entries = [_entry(path, number, table) for number, table in enumerate(tables, 1)]
    for field, word in (("name", "name"), ("digest", "key")):
        seen: dict[object, KeyEntry] = {}
        for entry in entries:
            other = seen.setdefault(getattr(entry, field), entry)
            if other is not entry:
                raise TenfoldError(
                    f"The key file {path} has the same {word} twice, at {other.name!r} and {entry.name!r}; change one."
                )
    return entries, warnings


def _read(path: Path) -> tuple[dict[str, object], list[str]]:
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            text = file.read(MAX_FILE_BYTES + 1)
    except OSError as problem:
        raise TenfoldError(f"The key file {path} cannot be read: {problem.strerror}.") from None
    if len(text) > MAX_FILE_BYTES:
        raise TenfoldError(f"The key file {path} has more than {MAX_FILE_BYTES} bytes; give another.")
    try:
        data: dict[str, object] = msgspec.toml.decode(text)
    except (msgspec.DecodeError, ValueError) as problem:
        # TOML's errors give a line, never its text, which may be a key.
        raise TenfoldError(f"The key file {path} is not TOML: {problem}.") from None
    warnings = []
    if mode & (stat.S_IRWXG | stat.S_IRWXO) & ~stat.S_IRGRP:
        warnings.append(
            f"The key file {path} is open to other users (mode {stat.S_IMODE(mode):03o}); chmod 600 closes it."
        )
    return data, warnings


def _entry(path: Path, number: int, table: object) -> KeyEntry:
    where = f"The key file {path}, key {number}"
    if isinstance(table, dict):
        for field in table:
            if field not in _Written.__struct_fields__:
                near = suggestion(field, _Written.__struct_fields__)
                raise TenfoldError(f"{where}: {field!r} is no setting of a key{near}")
    try:
        written = msgspec.convert(table, _Written)
    except msgspec.ValidationError as problem:
        raise TenfoldError(f"{where}: {problem}.") from None
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", written.name):
        raise TenfoldError(f"{where}: name must be 1 to 64 letters, digits, dots, dashes or underscores.")
    where = f"The key file {path}, key {written.name!r}"
    for name in _LIMITS:
        limit = getattr(written, name)
        if limit is not None and not 1 <= limit <= _MAX_LIMIT:
            raise TenfoldError(f"{where}: {name} is {limit}; give at least 1, or leave it out for no limit.")
    for scope in written.scopes:
        if scope not in SCOPES:
            raise TenfoldError(f"{where}: {scope!r} is no scope; there are {', '.join(SCOPES)}.")
    return KeyEntry(
        name=written.name,
        digest=_digest(where, written),
        scopes=tuple(scope for scope in SCOPES if scope in written.scopes),
        requests_per_minute=written.requests_per_minute,
        tokens_per_minute=written.tokens_per_minute,
        max_concurrent_requests=written.max_concurrent_requests,
    )


def _digest(where: str, written: _Written) -> bytes:
    if (written.key is None) == (written.sha256 is None):
        raise TenfoldError(f"{where}: give either key (as it is) or sha256 (its hash in hexadecimal).")
    if written.key is not None:
        if not written.key.strip() or written.key != written.key.strip():
            raise TenfoldError(f"{where}: key must not be empty, nor begin or end with a space.")
        return key_digest(written.key)
    assert written.sha256 is not None
    if not re.fullmatch(r"[0-9a-fA-F]{64}", written.sha256):
        raise TenfoldError(f"{where}: sha256 must be 64 hexadecimal digits (printf %s KEY | sha256sum).")
    return bytes.fromhex(written.sha256)
