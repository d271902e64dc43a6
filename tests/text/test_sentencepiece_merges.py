from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_vocabularies import sentencepiece_metadata
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import models

from tenfold.text.sentencepiece_merges import cached_splits, derive_splits
from tenfold.text.tokenizer import Tokenizer

LETTERS = "abc"


def join_by_score(text: str, scores: dict[str, float]) -> list[str]:
    """The slow twin: SentencePiece's rule, one join at a time, the leftmost of equals first."""
    parts = list(text)
    while True:
        pairs = [(scores[a + b], -i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in scores]
        if not pairs:
            return parts
        at = -max(pairs)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@given(
    st.lists(st.text(alphabet=LETTERS, min_size=2, max_size=5), unique=True, max_size=12),
    st.text(alphabet=LETTERS, max_size=20),
)
def test_one_merge_a_piece_gives_sentencepieces_joins(joined: list[str], text: str) -> None:
    pieces = [*joined, *LETTERS]
    scores = [-float(i) for i in range(len(pieces))]
    merges = derive_splits(pieces, scores, range(len(pieces))).merges(pieces)
    model = models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges)
    tokens = LibraryTokenizer(model).encode(text).tokens
    assert tokens == join_by_score(text, dict(zip(pieces, scores, strict=True)))


def test_cache_is_used_checked_and_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = sentencepiece_metadata(space_prefix=True)
    folder = tmp_path / "cache"
    first = Tokenizer.from_gguf(metadata, cache_dir=folder).encode("hello world s t")
    (path,) = folder.iterdir()
    good = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(
            "tenfold.text.sentencepiece_merges.derive_splits", lambda *_: pytest.fail("derived again")
        )
        assert Tokenizer.from_gguf(metadata, cache_dir=folder).encode("hello world s t") == first
    for damaged in (b"", good[:20], good[:-1] + b"x", b"other" + good):
        path.write_bytes(damaged)
        assert Tokenizer.from_gguf(metadata, cache_dir=folder).encode("hello world s t") == first
        assert path.read_bytes() == good


def test_a_changed_vocabulary_has_its_own_cache(tmp_path: Path) -> None:
    cached_splits(["ab", "a", "b"], [0.0, 0.0, 0.0], [0, 1, 2], tmp_path)
    cached_splits(["ba", "a", "b"], [0.0, 0.0, 0.0], [0, 1, 2], tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    splits = cached_splits(["ab", "a", "b"], [0.0, 0.0, 0.0], [0, 1, 2], blocked / "below")
    assert splits.merges(["ab", "a", "b"]) == [("a", "b")]
