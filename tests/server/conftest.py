"""One server for the tests that change nothing in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.fake_engine import FakeEngine
from tests.server.running_server import RunningServer


@pytest.fixture(scope="package")
def shared() -> Iterator[RunningServer]:
    with RunningServer(FakeEngine()) as server:
        yield server
