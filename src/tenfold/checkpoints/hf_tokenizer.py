"""TokenizerSource from a Hugging Face folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tenfold.checkpoints.checkpoint import TokenizerSource
from tenfold.checkpoints.fields import Fields
from tenfold.checkpoints.json_file import read_optional_object
from tenfold.checkpoints.mapped_file import MappedFile
from tenfold.checkpoints.stop_tokens import END_OF_TURN
from tenfold.core.errors import CheckpointError

MAX_TEMPLATE_BYTES = 1 << 20
MAX_TOKENIZER_BYTES = 256 << 20
_ROLES = ("bos_token", "eos_token", "unk_token", "pad_token")


class _AddedToken(msgspec.Struct):
    id: int
    content: str
    special: bool = False


class _TokenizerJson(msgspec.Struct):
    """The few parts of a tokenizer.json that are needed here; decoding skips the vocabulary."""

    added_tokens: list[_AddedToken] = []
    post_processor: msgspec.Raw = msgspec.Raw(b"null")


def read_tokenizer(
    folder: Path, configs: Iterable[Fields], generation: Fields, vocab_size: int
) -> TokenizerSource:
    """The tokenizer of a folder.

    Args:
        folder: it has tokenizer.json and perhaps tokenizer_config.json and a chat template.
        configs: config.json's fields, those of a nested text model too.
        generation: generation_config.json's fields.
        vocab_size: what ids must stay below.

    Raises:
        CheckpointError: tokenizer.json is missing, a file is malformed, or an id is out of range.
    """
    path = folder / "tokenizer.json"
    if not path.exists():
        raise CheckpointError(
            path,
            "the folder has no tokenizer.json; save one with transformers: "
            "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)",
        )
    parts = _read_parts(path)
    settings = Fields(
        folder / "tokenizer_config.json", read_optional_object(folder / "tokenizer_config.json")
    )
    special = _special(folder, settings)
    sources = [generation, *configs]
    ids = {token.content: token.id for token in parts.added_tokens}
    bos = next((found[0] for fields in sources if (found := _ids(fields, "bos_token_id", vocab_size))), None)
    if bos is None:
        bos = ids.get(special.get("bos_token", ""))
    stops = [token for fields in sources for token in _ids(fields, "eos_token_id", vocab_size)]
    if special.get("eos_token") in ids:
        stops.append(ids[special["eos_token"]])
    stops += [token.id for token in parts.added_tokens if token.special and token.content in END_OF_TURN]
    return TokenizerSource(
        tokenizer_json=path,
        chat_template=_chat_template(folder, settings),
        bos_token_id=bos,
        eos_token_ids=tuple(dict.fromkeys(token for token in stops if 0 <= token < vocab_size)),
        add_bos=settings.boolean("add_bos_token", _adds_bos(parts, special.get("bos_token"))),
        special=special,
    )


def _read_parts(path: Path) -> _TokenizerJson:
    file = MappedFile(path)
    if file.size > MAX_TOKENIZER_BYTES:
        raise CheckpointError(path, f"the file has {file.size} bytes, the limit is {MAX_TOKENIZER_BYTES}")
    try:
        parts = msgspec.json.decode(file.buffer, type=_TokenizerJson)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(path, f"this is no tokenizer ({error})") from None
    # A Raw is a view of the mapping; a copy lets go of it.
    parts.post_processor = parts.post_processor.copy()
    return parts


def _adds_bos(parts: _TokenizerJson, bos: str | None) -> bool:
    """Without a flag: whether the tokenizer's own post-processing puts the bos token in."""
    return bool(bos) and msgspec.json.encode(bos) in bytes(parts.post_processor)


def _special(folder: Path, settings: Fields) -> dict[str, str]:
    """Named special tokens; each is a string or an object with its text in "content"."""
    fallback = read_optional_object(folder / "special_tokens_map.json")
    special = {}
    for role in _ROLES:
        value: Any = settings.values.get(role) or fallback.get(role)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            special[role] = value
    return special


def _ids(fields: Fields, key: str, vocab_size: int) -> list[int]:
    """A field that is an id, a list of ids, or absent."""
    value = fields.values.get(key)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    for token in listed:
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab_size:
            raise fields.error(key, f"must be token ids below the vocabulary's {vocab_size}")
    return listed


def _chat_template(folder: Path, settings: Fields) -> str | None:
    """The chat template: its own file, or a field that is a string or a list of named templates."""
    jinja = folder / "chat_template.jinja"
    if jinja.exists():
        file = MappedFile(jinja)
        if file.size > MAX_TEMPLATE_BYTES:
            raise CheckpointError(
                jinja, f"the template has {file.size} bytes, the limit is {MAX_TEMPLATE_BYTES}"
            )
        try:
            return file.buffer[:].decode()
        except UnicodeDecodeError:
            raise CheckpointError(jinja, "the template is not UTF-8") from None
    own = folder / "chat_template.json"
    fields = Fields(own, read_optional_object(own))
    if not fields.has("chat_template"):
        fields = settings
    value = fields.values.get("chat_template")
    if isinstance(value, list):
        named = {
            entry.get("name"): entry.get("template")
            for entry in value
            if isinstance(entry, dict) and isinstance(entry.get("name"), str)
        }
        if not isinstance(named.get("default"), str):
            raise fields.error("chat_template", 'has no template named "default"')
        return str(named["default"])
    return fields.text("chat_template")
