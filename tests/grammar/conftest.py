"""A grammar compiler over the tiny models' vocabulary."""

from __future__ import annotations

import pytest

from tenfold.grammar.grammars import Grammars
from tenfold.text.tokenizer import Tokenizer
from tests import tiny_tokenizer

VOCAB = 300


@pytest.fixture(scope="package")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    path.write_text(tiny_tokenizer.tokenizer_json(VOCAB))
    return Tokenizer.from_file(path, bos_id=tiny_tokenizer.BOS, eos_ids=(tiny_tokenizer.EOS,))


@pytest.fixture(scope="package")
def grammars(tokenizer: Tokenizer) -> Grammars:
    return Grammars(tokenizer, VOCAB)
