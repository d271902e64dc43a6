"""Which instruction set the native kernels use: the best for the CPU and the load, or what is asked for."""

from __future__ import annotations

import os

from tenfold import _native
from tenfold.core.errors import TenfoldError

AMX_SEQUENCES = 12
"""Sequences at once from which AMX pays: it makes weights bfloat16 in each step, however few rows they meet."""


def choose_isa(forced: str | None = None, max_num_seqs: int = AMX_SEQUENCES) -> tuple[str, str]:
    """Return (instruction set, why): `forced`, else the environment's TENFOLD_ISA, else the CPU's best.

    AMX is not the best where fewer than `AMX_SEQUENCES` sequences may run at once. All of an engine's steps use one
    instruction set, as AMX and AVX-512 round differently.

    Raises:
        TenfoldError: when the forced one is unknown or the CPU lacks it.
    """
    supported = _native.supported_isas()
    wanted, source = forced, "asked for"
    if not wanted:
        wanted, source = os.environ.get("TENFOLD_ISA"), "forced by TENFOLD_ISA"
    if not wanted:
        if supported[-1] == "amx" and max_num_seqs < AMX_SEQUENCES:
            why = f"amx pays from {AMX_SEQUENCES} sequences at once, and max_num_seqs is {max_num_seqs}"
            return supported[-2], why
        return supported[-1], "the best this CPU supports"
    if wanted not in supported:
        raise TenfoldError(
            f"The instruction set {wanted!r} ({source}) is not available on this CPU; choose one of: "
            f"{', '.join(supported)}."
        )
    return wanted, source
