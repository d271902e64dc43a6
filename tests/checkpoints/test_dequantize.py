"""Dequantization equals the gguf package's bit for bit, on random blocks of every type."""

import gguf
import numpy as np
import pytest

from tenfold.checkpoints import dequantize as module
from tenfold.checkpoints.checkpoint import Tensor, TensorType
from tenfold.checkpoints.dequantize import dequantize
from tenfold.checkpoints.storage import BLOCKS

_FLOATS = {"F32": "<f4", "F16": "<f2"}


@pytest.mark.parametrize("kind", list(TensorType), ids=lambda kind: kind.name)
def test_equals_the_oracle(kind, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK_BYTES", 1000)
    elements, size = BLOCKS[kind]
    data = np.random.default_rng(1).integers(0, 256, 40 * 3 * size, np.uint8)
    got = dequantize(Tensor("t", kind, (40, 3 * elements), data, "f", 0))
    rows = data.reshape(40, -1).view(_FLOATS.get(kind.name, "u1"))
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(rows, gguf.GGMLQuantizationType(kind.value)).astype(np.float32)
    assert got.dtype == np.float32
    assert got.shape == (40, 3 * elements)
    np.testing.assert_array_equal(got, expected)


def test_vectors_keep_their_shape():
    data = np.arange(5, dtype="<f4").view(np.uint8)
    assert dequantize(Tensor("t", TensorType.F32, (5,), data, "f", 0)).tolist() == [0, 1, 2, 3, 4]


def test_block_sizes_are_the_format_s():
    for kind, (elements, size) in BLOCKS.items():
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind.value)] == (elements, size)
        assert gguf.GGMLQuantizationType(kind.value).name == kind.name
