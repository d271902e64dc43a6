"""Which module builds which architecture. Modules are imported when an architecture is first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from tenfold.checkpoints.checkpoint import Checkpoint
from tenfold.core.errors import UnsupportedModelError
from tenfold.program.program import Program

Builder = Callable[[Checkpoint], Program]

_MODULES = {
    "llama": "tenfold.models.llama",
    "qwen2": "tenfold.models.qwen2",
    "qwen3": "tenfold.models.qwen3",
    "gemma3": "tenfold.models.gemma3",
}


def architectures() -> tuple[str, ...]:
    """Names of the architectures that can be built."""
    return tuple(sorted(_MODULES))


def builder_for(architecture: str) -> Builder:
    """The `build` function of an architecture's module.

    Raises:
        UnsupportedModelError: no such architecture; the message lists those there are.
    """
    if architecture not in _MODULES:
        known = ", ".join(architectures())
        raise UnsupportedModelError(
            f"the architecture {architecture!r} is not supported; choose a model of: {known}"
        )
    builder: Builder = importlib.import_module(_MODULES[architecture]).build
    return builder
