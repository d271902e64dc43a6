"""How much memory this process may take."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


def total_memory(cgroup: Path = _CGROUP) -> int:
    """Bytes of the machine's memory, or of the container's limit if that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = _number(cgroup / "memory.max")
    return total if limit is None else min(total, limit)


def available_memory(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int:
    """Bytes that can be taken now without swapping: what is free and what the page cache would give back."""
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in _text(meminfo).splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    limit, used = _number(cgroup / "memory.max"), _number(cgroup / "memory.current")
    return available if limit is None else max(0, min(available, limit - (used or 0)))


def _number(file: Path) -> int | None:
    """The number in a file; None when it is absent or says "max"."""
    text = _text(file).strip()
    return int(text) if text.isdecimal() else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
