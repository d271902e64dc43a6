"""A mapped file gives its pages back when told to, and can be read again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tenfold.checkpoints.mapped_file import MappedFile
from tenfold.config.engine import EngineSettings
from tenfold.engine.model import load_model
from tests.tiny_models import write_tiny_gguf


def resident(name: str) -> int:
    """KiB of the mappings of a file that are in memory."""
    smaps = Path("/proc/self/smaps").read_text()
    found = re.findall(rf"{re.escape(name)}\n(?:.*\n)*?Rss: +(\d+) kB", smaps)
    return sum(map(int, found))


def test_forgotten_pages_leave_memory_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    content = np.random.default_rng(0).integers(0, 256, 1 << 22, dtype=np.uint8)
    path.write_bytes(content.tobytes())
    file = MappedFile(path)
    assert int(file.bytes.sum(dtype=np.int64)) == int(content.sum(dtype=np.int64))
    before = resident(str(path))
    assert before >= 4000
    file.forget(100, file.size)
    assert resident(str(path)) <= before - 4000
    assert file.bytes.tobytes() == content.tobytes()
    file.forget(5, 7)  # less than a page


def test_no_weight_stays_in_memory_twice_while_loading(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", type="BF16", vocab=4000, hidden=256)
    settings = EngineSettings(threads=1, kv_cache_memory_bytes=1 << 20, max_model_len=128)
    seen = []
    model = load_model(path, settings, lambda done, total: seen.append(resident(str(path))))
    assert model.runner.native.weight_bytes > 4 << 20
    # What is left is the header and pages that two tensors share.
    assert max(seen) < 800
