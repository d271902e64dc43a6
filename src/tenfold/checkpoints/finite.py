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
    """Check that no element is NaN or infinite, by the scales of quantized blocks. Reads the tensor's bytes once.

    Raises:
        CheckpointError: with the byte offset of the first bad number.
    """
    size = BLOCKS[tensor.type][1]
    blocks = tensor.data.reshape(-1, size)
    for column in _SCALES.get(tensor.type, (2,)):
        # The exponent: the upper 8 of float32's and bfloat16's lie in the top two bytes, float16's 5 likewise.
        top = blocks[:, column + 1].astype(np.uint16) << 8 | blocks[:, column]
        exponent = 0x7F80 if tensor.type in (TensorType.F32, TensorType.BF16) else 0x7C00
        bad = (top & exponent) == exponent
        if bad.any():
            index = int(np.argmax(bad))
            raise CheckpointError(
                tensor.file,
                f"the number in block {index} is NaN or infinite; the file is corrupted",
                tensor=tensor.name,
                offset=tensor.offset + index * size + column,
            )
