"""The fast reader of string arrays gives what a plain loop gives, for any strings."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenfold.checkpoints.gguf_strings import read_strings
from tenfold.core.errors import CheckpointError
from tests.checkpoints.raw_gguf import string

TEXTS = st.text() | st.sampled_from(
    ["", "\0", "\0" * 7, "\0" * 9, "x" * 255, "x" * 256, "x" * 70_000, "é" * 64]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS, max_size=40), st.binary(max_size=40), st.integers(1, 60))
def test_reads_any_strings(texts, rest, repeat):
    texts = texts * (repeat if sum(map(len, texts)) < 2000 else 1)
    body = b"".join(map(string, texts))
    assert read_strings("f", b"pad" + body + rest, 3, len(texts), "x") == (texts, 3 + len(body))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=5), min_size=1, max_size=600), st.data())
def test_cut_or_bad_strings_are_refused(texts, data):
    body = b"".join(map(string, texts))
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(CheckpointError):
        read_strings("f", body[:cut], 0, len(texts), "x")
    place = data.draw(st.integers(0, len(texts)))
    bad = b"".join(map(string, [*texts[:place], b"\xc3", *texts[place:]]))
    with pytest.raises(CheckpointError, match="x has a string that is not UTF-8") as raised:
        read_strings("f", bad, 0, len(texts) + 1, "x")
    assert raised.value.offset == sum(len(string(text)) for text in texts[:place])
