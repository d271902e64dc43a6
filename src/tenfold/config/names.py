"""The names of settings: as fields, as flags, as variables, and the nearest one to a wrong one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import msgspec

from tenfold.config.engine import EngineSettings
from tenfold.config.server import ServerSettings

SECTIONS: Mapping[str, type[msgspec.Struct]] = {"engine": EngineSettings, "server": ServerSettings}
# Belongs to no section: what is served.
MODEL = "model"
FIELDS: Mapping[str, str] = {
    MODEL: "",
    **{field: section for section, kind in SECTIONS.items() for field in kind.__struct_fields__},
}
# A flag that may be repeated names one item of its field.
ITEM_FLAGS: Mapping[str, str] = {
    "api_key": "api_keys",
    "served_model_name": "served_model_names",
    "cors_origin": "cors_origins",
}
LIST_FIELDS = frozenset(ITEM_FLAGS.values())
SECRETS = frozenset({"api_keys", "ssl_keyfile_password"})
VARIABLE_PREFIX = "TENFOLD_"
# Other variables, without the prefix: where models lie, and what tests and benchmarks read.
_OTHER_VARIABLES = (
    *("CONFIG", "HOME", "BENCH_API_KEY", "TEST_MODELS", "SCREENSHOTS"),
    *("LLAMA_BIN", "VLLM_PYTHON", "TRANSFORMERS_PYTHON"),
)


def field_of(name: str) -> str | None:
    """The field that `name` means: itself, or a flag's name with dashes; None when there is none."""
    plain = name.replace("-", "_")
    plain = ITEM_FLAGS.get(plain, plain)
    return plain if plain in FIELDS else None


def flag_of(field: str) -> str:
    """The flag of a field, such as "--api-key" of api_keys."""
    item = next((item for item, whole in ITEM_FLAGS.items() if whole == field), field)
    return "--" + item.replace("_", "-")


def suggestion(name: str, known: Iterable[str]) -> str:
    """A half-sentence that names the known name nearest to a wrong one; empty when none is near."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else "."


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that begins with TENFOLD_ and means nothing to any command."""
    known = {name.upper() for name in (*FIELDS, *ITEM_FLAGS)} | set(_OTHER_VARIABLES)
    wrong = []
    for name in sorted(environment):
        rest = name.removeprefix(VARIABLE_PREFIX)
        if rest != name and rest not in known:
            near = suggestion(rest, known).replace("mean ", f"mean {VARIABLE_PREFIX}")
            wrong.append(f"The variable {name} in the environment is no setting{near}")
    return wrong
