from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))  # for the small vocabularies that these tests share

from small_vocabularies import byte_level, sentencepiece

from tenfold.text.tokenizer import Tokenizer

# The machine may be busy: slowness is no failure.
settings.register_profile("text", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("text")


@pytest.fixture(scope="session", params=["byte_level", "sentencepiece", "sentencepiece_prefixed"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param == "byte_level":
        return byte_level()
    return sentencepiece(space_prefix=request.param.endswith("prefixed"))
