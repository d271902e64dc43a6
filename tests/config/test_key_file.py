"""The key file: what it says is taken as said, what has no meaning is a sentence that shows no key."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tenfold.config.key_file import MAX_KEYS, KeyEntry, read_key_file
from tenfold.core.errors import TenfoldError

HASH = hashlib.sha256(b"hashed").hexdigest()


def write(tmp_path, text, mode=0o600):
    path = tmp_path / "keys.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def test_keys_plain_and_hashed(tmp_path):
    text = f"""
    [[keys]]
    name = "one"
    key = "plain-ü"
    [[keys]]
    name = "two"
    sha256 = "{HASH.upper()}"
    scopes = ["admin", "metrics"]
    requests_per_minute = 5
    tokens_per_minute = 700
    max_concurrent_requests = 2
    """
    assert read_key_file(write(tmp_path, text)) == (
        [
            KeyEntry(name="one", digest=hashlib.sha256("plain-ü".encode()).digest()),
            KeyEntry(
                name="two",
                digest=bytes.fromhex(HASH),
                scopes=("metrics", "admin"),
                requests_per_minute=5,
                tokens_per_minute=700,
                max_concurrent_requests=2,
            ),
        ],
        [],
    )


@pytest.mark.parametrize(("mode", "warned"), [(0o600, 0), (0o400, 0), (0o640, 0), (0o644, 1), (0o660, 1)])
def test_a_file_open_to_others_is_warned_of(tmp_path, mode, warned):
    _, warnings = read_key_file(write(tmp_path, '[[keys]]\nname = "a"\nkey = "k"\n', mode))
    assert len(warnings) == warned
    assert all(f"mode {mode:o}" in sentence and "chmod 600" in sentence for sentence in warnings)


KEY = '[[keys]]\nname = "a"\nkey = "sesame"\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "[[keys]]"),
        ("keys = []\n", "[[keys]]"),
        ("keys = 3\n", "[[keys]]"),
        ("keys = [3]\n", "key 1"),
        (KEY + "[other]\n", "has 'other'"),
        ("[[keys\n", "is not TOML"),
        ('[[keys]]\nkey = "sesame"\n', "name"),
        ('[[keys]]\nname = "a b"\nkey = "sesame"\n', "name must be"),
        ('[[keys]]\nname = "a:b"\nkey = "sesame"\n', "name must be"),
        ('[[keys]]\nname = "a"\n', "either key"),
        (KEY + f'sha256 = "{HASH}"\n', "either key"),
        ('[[keys]]\nname = "a"\nsha256 = "sesame"\n', "64 hexadecimal digits"),
        ('[[keys]]\nname = "a"\nkey = " sesame"\n', "space"),
        ('[[keys]]\nname = "a"\nkey = ""\n', "empty"),
        (KEY + 'scopes = ["root"]\n', "'root' is no scope; there are inference, metrics, admin"),
        (KEY + "requests_per_minute = 0\n", "requests_per_minute is 0"),
        (KEY + 'tokens_per_minute = "many"\n', "tokens_per_minute"),
        (KEY + "token_per_minute = 3\n", "did you mean tokens_per_minute?"),
        (KEY + KEY, "the same name twice"),
        (KEY + KEY.replace('"a"', '"b"'), "the same key twice, at 'a' and 'b'"),
        ("".join(f'[[keys]]\nname = "{n}"\nkey = "{n}"\n' for n in range(MAX_KEYS + 1)), "the limit is"),
    ],
)
def test_mistakes_are_sentences(tmp_path, text, sentence):
    with pytest.raises(TenfoldError) as caught:
        read_key_file(write(tmp_path, text))
    assert sentence in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_absent_and_endless_files(tmp_path):
    with pytest.raises(TenfoldError, match="cannot be read: No such file"):
        read_key_file(tmp_path / "absent")
    with pytest.raises(TenfoldError, match="more than"):
        read_key_file(Path("/dev/zero"))
