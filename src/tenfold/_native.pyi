from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]
Columns = Sequence[int]

def supported_isas() -> list[str]: ...
def measure_ceilings(
    isa: str, threads: int, seconds: float = 0.2, read_bytes: int = 1 << 30
) -> dict[str, float]: ...

class StepTimes(TypedDict):
    """Seconds of all profiled steps together.

    stages: in the order they run, (kind, seconds, parts); a part is (number of its op, whether it quantizes
    for that op, seconds).
    """

    steps: int
    seconds: float
    prepare: float
    sampling: float
    stages: list[tuple[str, float, list[tuple[int, bool, float]]]]

Likeliest = list[tuple[int, float]]
# Of each sampled row the token, its log probability and, if asked for, the likeliest tokens with theirs; of each scored
# row (scores: row, token and how many of the likeliest, flat) its log probability, its rank, and the likeliest.
Step = tuple[list[int], list[float], list[Likeliest | None], list[tuple[float, int, Likeliest]]]

class Program:
    def __init__(self, isa: str, threads: int) -> None: ...
    def add_buffer(self, width: int) -> int: ...
    def add_weight(self, ggml_type: int, data: npt.NDArray[np.uint8], n: int, k: int) -> int: ...
    def add_vector(self, values: Float32) -> int: ...
    def add_rope(self, inv_freq: Sequence[float], factor: float, interleaved: bool) -> int: ...
    def embed(self, out: Columns, weight: int, scale: float) -> None: ...
    def rms_norm(self, x: Columns, out: Columns, vector: int, eps: float, head_dim: int) -> None: ...
    def rope(self, x: Columns, head_dim: int, rope: int) -> None: ...
    def gated(self, gate: Columns, up: Columns, out: Columns, gelu: bool, alone: bool) -> None: ...
    def add(self, x: Columns, out: Columns) -> None: ...
    def linear(
        self, x: Columns, out: Columns, weights: Sequence[int], biases: Sequence[int], add: bool
    ) -> None: ...
    def attention(
        self,
        q: Columns,
        k: Columns,
        v: Columns,
        out: Columns,
        layer: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        scale: float,
        window: int,
    ) -> None: ...
    def logits(self, x: Columns, weight: int, softcap: float) -> None: ...
    def finish(
        self, vocab: int, max_tokens: int, max_logit_rows: int, num_blocks: int, block_size: int
    ) -> None: ...
    def step(
        self,
        tokens: Sequence[int],
        counts: list[int],
        starts: list[int],
        blocks: Int32,
        block_offsets: list[int],
        logit_rows: list[int],
        sampling: Any,
        scores: list[int] = ...,
    ) -> Step: ...
    def step_logits(
        self,
        tokens: Sequence[int],
        counts: list[int],
        starts: list[int],
        blocks: Int32,
        block_offsets: list[int],
        logit_rows: list[int],
    ) -> Float32: ...
    @property
    def weight_bytes(self) -> int: ...
    @property
    def kv_bytes(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def isa(self) -> str: ...
    @property
    def weight_formats(self) -> list[str]: ...
    @property
    def weight_products(self) -> list[str]: ...
    @property
    def weight_sizes(self) -> list[int]: ...
    def profile(self, on: bool) -> None: ...
    def step_times(self) -> StepTimes: ...
    def stage_seconds(self) -> dict[str, float]: ...

def __getattr__(name: str) -> Any: ...
