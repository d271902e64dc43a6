from __future__ import annotations

from pathlib import Path

import pytest

from tenfold.lab.profile.report import ProfileReport
from tenfold.lab.profile.run import profile_model
from tenfold.lab.profile.settings import ProfileSettings
from tests.tiny_models import write_tiny_gguf

SMALL = ProfileSettings(
    prompt_tokens=40,
    batch=3,
    depth=37,
    steps=6,
    threads=2,
    max_num_batched_tokens=64,
    ceiling_seconds=0.01,
)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("profile") / "tiny.gguf", context=256)


@pytest.fixture(scope="session")
def report(tiny: Path) -> ProfileReport:
    return profile_model(tiny, SMALL)


@pytest.fixture(scope="session")
def by_layer(tiny: Path) -> ProfileReport:
    return profile_model(tiny, SMALL, by_layer=True)
