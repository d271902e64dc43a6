"""Settings from a TOML file, the environment and flags; later ones win, and each value remembers where it came from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tenfold.config.engine import EngineSettings
from tenfold.config.names import (
    FIELDS,
    ITEM_FLAGS,
    LIST_FIELDS,
    SECRETS,
    SECTIONS,
    VARIABLE_PREFIX,
    field_of,
    flag_of,
    suggestion,
)
from tenfold.config.server import ServerSettings
from tenfold.core.errors import TenfoldError

MAX_FILE_BYTES = 1 << 20
MAX_SECONDS = 86_400.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set.

    Args:
        model: what to serve where the command line names nothing; None takes the default model.
        engine: how to run it.
        server: how to serve it.
    """

    model: str | None = None
    engine: EngineSettings = msgspec.field(default_factory=EngineSettings)
    server: ServerSettings = msgspec.field(default_factory=ServerSettings)


class Source(msgspec.Struct, frozen=True):
    """Where one value came from: "file", "environment", "flag", or of `every_value` also "default"."""

    name: str
    value: Any
    source: str

    @property
    def shown(self) -> str:
        """The value as people may see it."""
        if self.name in SECRETS and self.value:
            return "..."
        if isinstance(self.value, tuple | list):
            return ", ".join(map(str, self.value)) or "not set"
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return "not set" if self.value is None else str(self.value)


# msgspec's names of types, in words.
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "array": "a list",
}
_CHOICES = {"log_format": ("text", "json"), "log_level": ("debug", "info", "warning", "error")}


def load_settings(
    flags: Mapping[str, Any], *, config_file: Path | None = None, environment: Mapping[str, str] | None = None
) -> tuple[Settings, list[Source]]:
    """Merge the layers: file < environment (TENFOLD_ and the field's name in capitals) < flags that are not None.

    Args:
        flags: values by field name; None means not given.
        config_file: TOML; names as of fields or flags, in tables [engine] and [server] or without.
        environment: the process's environment when left out.

    Returns:
        The settings and, for each value that is not a default, its source.

    Raises:
        TenfoldError: an unknown name, a value of the wrong type, or an unreadable file.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    if config_file is not None:
        for field, value in _read(config_file).items():
            values[field] = value
            sources[field] = Source(field, value, "file")
    for field in FIELDS:
        text = _variable(field, environment)
        if text:
            values[field] = text.split(",") if field in LIST_FIELDS else text
            sources[field] = Source(field, text, "environment")
        if flags.get(field) is not None:
            values[field] = flags[field]
            sources[field] = Source(field, flags[field], "flag")
    nested: dict[str, Any] = {name: {} for name in SECTIONS}
    for field, value in values.items():
        (nested[FIELDS[field]] if FIELDS[field] else nested)[field] = value
    try:
        settings = msgspec.convert(nested, Settings, strict=False)
    except msgspec.ValidationError as problem:
        raise TenfoldError(_wrong_value(str(problem), sources)) from None
    _check_server(settings.server)
    return settings, list(sources.values())


def every_value(settings: Settings, sources: list[Source]) -> list[Source]:
    """Every setting in the order of the schema, with its final value and its source."""
    given = {source.name: source.source for source in sources}
    found = []
    for field, section in FIELDS.items():
        value = getattr(getattr(settings, section) if section else settings, field)
        found.append(Source(field, value, given.get(field, "default")))
    return found


def _variable(field: str, environment: Mapping[str, str]) -> str:
    names = [field, *(item for item, whole in ITEM_FLAGS.items() if whole == field)]
    return next(filter(None, (environment.get(VARIABLE_PREFIX + name.upper()) for name in names)), "")


def _wrong_value(problem: str, sources: Mapping[str, Source]) -> str:
    """msgspec's words ("Expected `int`, got `str` - at `$.server.port`") as a sentence that says whose value it is."""
    found = re.fullmatch(r"Expected `(\w+)[^`]*`.* - at `\$(?:\.(?:engine|server))?\.(\w+)[^`]*`", problem)
    source = sources.get(found[2]) if found else None
    if found is None or source is None:
        return f"A setting has a wrong value: {problem}."
    origin = {
        "environment": f"{VARIABLE_PREFIX}{source.name.upper()} in the environment",
        "file": f"{source.name} in the settings file",
        "flag": flag_of(source.name),
    }[source.source]
    value = "" if source.name in SECRETS else f" {source.value!r}"
    return f"{origin} has the wrong value{value}; give {_KINDS.get(found[1], found[1])}."


def _check_server(server: ServerSettings) -> None:
    for name in (
        *("max_body_bytes", "max_pending_body_bytes", "max_prompts"),
        *("max_file_bytes", "max_files", "max_batches", "batch_concurrency"),
    ):
        if getattr(server, name) < 1:
            raise TenfoldError(f"{name} is {getattr(server, name)}; it must be at least 1.")
    for name in ("body_timeout_s", "shutdown_timeout_s"):
        seconds = getattr(server, name)
        if not 0 <= seconds <= MAX_SECONDS:  # false for NaN
            raise TenfoldError(f"{name} is {seconds}; it must be at least 0 and at most {MAX_SECONDS:g}.")
    for name, choices in _CHOICES.items():
        if getattr(server, name) not in choices:
            raise TenfoldError(f"{name} is {getattr(server, name)!r}; it can be {' or '.join(choices)}.")
    if not re.fullmatch(r"0?[0-7]{3}", server.uds_mode):
        raise TenfoldError(f"uds_mode is {server.uds_mode!r}; give three octal digits, such as 660.")
    endpoint = server.otlp_traces_endpoint
    if endpoint is not None and not re.fullmatch(r"https?://[^/\s]+(/\S*)?", endpoint):
        raise TenfoldError(
            f"otlp_traces_endpoint is {endpoint!r}; give a URL, such as http://127.0.0.1:4318 (OTLP over HTTP)."
        )
    for name in ("ssl_keyfile", "ssl_keyfile_password", "ssl_ca_certs"):
        if getattr(server, name) is not None and server.ssl_certfile is None:
            raise TenfoldError(f"{name} is of no use without a certificate; give ssl_certfile too.")


def _read(path: Path) -> dict[str, Any]:
    """The file's values by field."""
    found: dict[str, Any] = {}
    for name, value, section in _entries(path, _parse(path)):
        field = field_of(name)
        where = f"The settings file {path} sets {name!r}" + (f" in [{section}]" if section else "")
        if field is None:
            known = [field for field, home in FIELDS.items() if section in ("", home)]
            raise TenfoldError(f"{where}, which is no setting" + suggestion(name, known))
        if section and FIELDS[field] != section:
            home = f"in [{FIELDS[field]}]" if FIELDS[field] else "above all tables"
            raise TenfoldError(f"{where}; it belongs {home}.")
        if field in found:
            raise TenfoldError(f"{where}, and {field} a second time; leave one.")
        # A repeated flag's name with one text is a list of one.
        found[field] = [value] if name.replace("-", "_") in ITEM_FLAGS and isinstance(value, str) else value
    return found


def _entries(path: Path, data: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """(name, value, table or "") of every entry."""
    for name, value in data.items():
        if isinstance(value, dict):
            if name not in SECTIONS:
                raise TenfoldError(
                    f"The settings file {path} has [{name}]; it may have [engine] and [server]."
                )
            yield from ((inner, setting, name) for inner, setting in value.items())
        else:
            yield name, value, ""


def _parse(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            # Not the whole of it: an endless file, such as a device, would fill the memory.
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise TenfoldError(
                f"The settings file {path} has more than {MAX_FILE_BYTES} bytes; give another."
            )
        data: dict[str, Any] = msgspec.toml.decode(text)
    except OSError as problem:
        raise TenfoldError(f"The settings file {path} cannot be read: {problem.strerror}.") from None
    except (msgspec.DecodeError, ValueError) as problem:
        hint = " YAML is not read." if path.suffix in (".yaml", ".yml") else ""
        raise TenfoldError(f"The settings file {path} is not TOML: {problem}.{hint}") from None
    return data
