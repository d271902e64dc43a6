"""Settings from a TOML file, the environment and flags; later ones win, and each value remembers where it came from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tenfold.config.engine import EngineSettings
from tenfold.config.server import ServerSettings
from tenfold.core.errors import TenfoldError

MAX_FILE_BYTES = 1 << 20
MAX_SECONDS = 86_400.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set."""

    engine: EngineSettings = msgspec.field(default_factory=EngineSettings)
    server: ServerSettings = msgspec.field(default_factory=ServerSettings)


class Source(msgspec.Struct, frozen=True):
    """Where one value came from: "file", "environment" or "flag"."""

    name: str
    value: Any
    source: str


_SECTIONS: dict[str, type[msgspec.Struct]] = {"engine": EngineSettings, "server": ServerSettings}
# In the environment their items are separated by commas.
_LISTS = ("api_keys", "cors_origins", "served_model_names")
# msgspec's names of types, in words.
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "array": "a list",
}


def load_settings(
    flags: Mapping[str, Any], *, config_file: Path | None = None, environment: Mapping[str, str] | None = None
) -> tuple[Settings, list[Source]]:
    """Merge the layers: file < environment (TENFOLD_ and the field's name in capitals) < flags that are not None.

    Args:
        flags: values by field name; None means not given.
        config_file: TOML with tables [engine] and [server].
        environment: the process's environment when left out.

    Returns:
        The settings and, for each value that is not a default, its source.

    Raises:
        TenfoldError: an unknown name, a value of the wrong type, or an unreadable file.
    """
    environment = os.environ if environment is None else environment
    sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    sources: dict[str, Source] = {}
    if config_file is not None:
        for section, values in _read(config_file).items():
            for field, value in values.items():
                sections[section][field] = value
                sources[field] = Source(field, value, "file")
    for section, kind in _SECTIONS.items():
        for field in kind.__struct_fields__:
            text = environment.get(f"TENFOLD_{field.upper()}")
            if text:
                sections[section][field] = text.split(",") if field in _LISTS else text
                sources[field] = Source(field, text, "environment")
            if flags.get(field) is not None:
                sections[section][field] = flags[field]
                sources[field] = Source(field, flags[field], "flag")
    try:
        settings = msgspec.convert(sections, Settings, strict=False)
    except msgspec.ValidationError as problem:
        raise TenfoldError(_wrong_value(str(problem), sources)) from None
    _check_server(settings.server)
    return settings, list(sources.values())


def _wrong_value(problem: str, sources: Mapping[str, Source]) -> str:
    """msgspec's words ("Expected `int`, got `str` - at `$.server.port`") as a sentence that says whose value it is."""
    found = re.fullmatch(r"Expected `(\w+)[^`]*`.* - at `\$\.\w+\.(\w+)[^`]*`", problem)
    source = sources.get(found[2]) if found else None
    if found is None or source is None:
        return f"A setting has a wrong value: {problem}."
    origin = {
        "environment": f"TENFOLD_{source.name.upper()} in the environment",
        "file": f"{source.name} in the settings file",
        "flag": f"--{source.name.replace('_', '-')}",
    }[source.source]
    value = "" if source.name == "api_keys" else f" {source.value!r}"
    return f"{origin} has the wrong value{value}; give {_KINDS.get(found[1], found[1])}."


def _check_server(server: ServerSettings) -> None:
    for name in ("max_body_bytes", "max_pending_body_bytes", "max_prompts"):
        if getattr(server, name) < 1:
            raise TenfoldError(f"{name} is {getattr(server, name)}; it must be at least 1.")
    for name in ("body_timeout_s", "shutdown_timeout_s"):
        seconds = getattr(server, name)
        if not 0 <= seconds <= MAX_SECONDS:  # false for NaN
            raise TenfoldError(f"{name} is {seconds}; it must be at least 0 and at most {MAX_SECONDS:g}.")


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        with path.open("rb") as file:
            # Not the whole of it: an endless file, such as a device, would fill the memory.
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise TenfoldError(
                f"The settings file {path} has more than {MAX_FILE_BYTES} bytes; give another."
            )
        data: dict[str, dict[str, Any]] = msgspec.toml.decode(text)
    except OSError as problem:
        raise TenfoldError(f"The settings file {path} cannot be read: {problem.strerror}.") from None
    except (msgspec.DecodeError, ValueError) as problem:
        raise TenfoldError(f"The settings file {path} is not TOML: {problem}.") from None
    for section, values in data.items():
        if section not in _SECTIONS or not isinstance(values, dict):
            raise TenfoldError(
                f"The settings file {path} has {section!r}; it may have [engine] and [server]."
            )
        unknown = sorted(set(values) - set(_SECTIONS[section].__struct_fields__))
        if unknown:
            known = ", ".join(_SECTIONS[section].__struct_fields__)
            raise TenfoldError(
                f"The settings file {path} sets {unknown[0]!r} in [{section}]; known are: {known}."
            )
    return data
