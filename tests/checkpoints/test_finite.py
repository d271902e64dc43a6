"""NaN and infinity in stored weights are found, and nothing else is."""

import numpy as np
import pytest

from tenfold.checkpoints.checkpoint import Tensor, TensorType
from tenfold.checkpoints.dequantize import dequantize
from tenfold.checkpoints.finite import check_finite
from tenfold.checkpoints.storage import BLOCKS
from tenfold.core.errors import CheckpointError


@pytest.mark.parametrize("kind", list(TensorType), ids=lambda kind: kind.name)
def test_agrees_with_dequantized_values(kind):
    elements, size = BLOCKS[kind]
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(100):
        data = rng.integers(0, 256, 8 * size, np.uint8)
        tensor = Tensor("t", kind, (8 * elements,), data, "f", 1000)
        if np.isfinite(dequantize(tensor)).all():
            # A bad scale of a block whose levels are all 0 is bad too, but random levels are not all 0.
            check_finite(tensor)
        else:
            found += 1
            with pytest.raises(CheckpointError, match="NaN or infinite") as raised:
                check_finite(tensor)
            bad = int((raised.value.offset - 1000) // size)
            assert not np.isfinite(dequantize(tensor).reshape(8, -1)[bad]).all()
            assert np.isfinite(dequantize(tensor).reshape(8, -1)[:bad]).all()
    assert found > 0
