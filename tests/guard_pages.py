"""Arrays that touch memory nobody may touch: a kernel that strays by a byte ends the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np


def guarded(array: np.ndarray, at_end: bool = True) -> np.ndarray:
    """A copy whose last byte lies before a forbidden page, or whose first byte lies after one."""
    page = mmap.PAGESIZE
    inside = -(-max(array.nbytes, 1) // page) * page
    # Never unmapped: numpy holds it as long as the copy lives, and the pages' protection goes with it.
    memory = mmap.mmap(-1, inside + 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect: Any = ctypes.CDLL(None, use_errno=True).mprotect
    for guard in (address, address + page + inside):
        if protect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect refused a guard page.")
    offset = page + (inside - array.nbytes if at_end else 0)
    copy = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    return copy
