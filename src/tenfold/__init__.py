"""Tenfold: serve open-weight language models from a fast CPU engine.

The public names load on first use, so that `import tenfold` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenfold.core.sampling_params import SamplingParams
    from tenfold.core.structured_output import StructuredOutput
    from tenfold.engine.llm import LLM

__all__ = ["LLM", "SamplingParams", "StructuredOutput", "__version__"]
__version__ = "0.1.0"

_HOMES = {
    "LLM": "tenfold.engine.llm",
    "SamplingParams": "tenfold.core.sampling_params",
    "StructuredOutput": "tenfold.core.structured_output",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tenfold' has no attribute {name!r}; it has {', '.join(__all__)}")
