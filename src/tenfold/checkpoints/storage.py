"""How many bytes each storage type takes, and the names of those that are not supported."""

from __future__ import annotations

from tenfold.checkpoints.checkpoint import TensorType

BLOCKS: dict[TensorType, tuple[int, int]] = {
    TensorType.F32: (1, 4),
    TensorType.F16: (1, 2),
    TensorType.BF16: (1, 2),
    TensorType.Q4_0: (32, 18),
    TensorType.Q4_1: (32, 20),
    TensorType.Q5_0: (32, 22),
    TensorType.Q5_1: (32, 24),
    TensorType.Q8_0: (32, 34),
    TensorType.Q2_K: (256, 84),
    TensorType.Q3_K: (256, 110),
    TensorType.Q4_K: (256, 144),
    TensorType.Q5_K: (256, 176),
    TensorType.Q6_K: (256, 210),
}
"""Elements and bytes of one block."""

FLOAT_TYPES = frozenset({TensorType.F32, TensorType.F16, TensorType.BF16})
"""Types without blocks."""

_UNSUPPORTED = {
    4: "Q4_2",
    5: "Q4_3",
    9: "Q8_1",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    34: "TQ1_0",
    35: "TQ2_0",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
    39: "MXFP4",
    40: "NVFP4",
    41: "Q1_0",
}


def unsupported(number: int) -> str:
    """A sentence for a ggml type number that is no TensorType."""
    supported = ", ".join(kind.name for kind in TensorType)
    name = _UNSUPPORTED.get(number)
    if name is None:
        return f"the type number {number} is unknown; supported: {supported}"
    return f"type {name} is not supported; supported: {supported}"


def byte_size(kind: TensorType, shape: tuple[int, ...]) -> int:
    """Bytes of a tensor; its last dimension must be whole blocks."""
    elements, size = BLOCKS[kind]
    total = size
    for length in shape[:-1]:
        total *= length
    return total * (shape[-1] // elements)
