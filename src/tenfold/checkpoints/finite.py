"""Finding NaN and infinity in stored weights without dequantizing them."""

from __future__ import annotations

import numpy as np

from tenfold.checkpoints.checkpoint import Tensor, TensorType
from tenfold.checkpoints.storage import BLOCKS
from tenfold.core.errors import CheckpointError

_SCALES: dict[TensorType, tuple[int, ...]] = {
    TensorType.F16: (0,),
    TensorType.BF16: (0,),
    TensorType.Q4_0: (0,),
    TensorType.Q4_1: (0, 2),
    TensorType.Q5_0: (0,),
    TensorType.Q5_1: (0, 2),
    TensorType.Q8_0: (0,),
    TensorType.Q2_K: (80, 82),
    TensorType.Q3_K: (108,),
    TensorType.Q4_K: (0, 2),
    TensorType.Q5_K: (0, 2),
    TensorType.Q6_K: (208,),
}
"""Where a block's 16-bit floats are."""


def check_finite(tensor: Tensor) -> None:
    """Check that no element is NaN or infinite, for quantized types by their blocks' scales.

    Raises:
        CheckpointError: with the byte offset of the first bad number.
    """
    size = BLOCKS[tensor.type][1]
    blocks = tensor.data.reshape(-1, size)
    # The exponent lies in the top two bytes: 8 bits of float32 and bfloat16, 5 bits of float16.
    exponent = 0x7F80 if tensor.type in (TensorType.F32, TensorType.BF16) else 0x7C00
    first: tuple[int, int] | None = None
    for column in _SCALES.get(tensor.type, (2,)):
        top = blocks[:, column + 1].astype(np.uint16) << np.uint16(8)
        bad = (top & exponent | blocks[:, column] & (exponent & 0xFF)) == exponent
        if bad.any():
            place = (int(np.argmax(bad)), column)
            first = place if first is None else min(first, place)
    if first is not None:
        raise CheckpointError(
            tensor.file,
            f"a number of block {first[0]} is NaN or infinite; the file is corrupted",
            tensor=tensor.name,
            offset=tensor.offset + first[0] * size + first[1],
        )
