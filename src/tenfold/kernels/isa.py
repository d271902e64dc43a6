"""Which instruction set the native kernels use: the CPU's best, or what TENFOLD_ISA forces."""

from __future__ import annotations

import os

from tenfold import _native
from tenfold.core.errors import TenfoldError


def choose_isa(forced: str | None = None) -> tuple[str, str]:
    """Return (instruction set, why): `forced`, else the environment's TENFOLD_ISA, else the CPU's best.

    Raises:
        TenfoldError: when the forced one is unknown or the CPU lacks it.
    """
    supported = _native.supported_isas()
    wanted, source = forced, "asked for"
    if not wanted:
        wanted, source = os.environ.get("TENFOLD_ISA"), "forced by TENFOLD_ISA"
    if not wanted:
        return supported[-1], "the best this CPU supports"
    if wanted not in supported:
        raise TenfoldError(
            f"The instruction set {wanted!r} ({source}) is not available on this CPU; choose one of: "
            f"{', '.join(supported)}."
        )
    return wanted, source
