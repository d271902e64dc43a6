"""The least time a step can take on a machine whose ceilings are known.

A step must read the weights it uses and the KV it attends to, and do its products. With perfect overlap it
takes the longer of the two: bytes at the measured read rate, operations at the measured dot-product rates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from tenfold import _native
from tenfold.program.op import Attention, Embed, Linear, Logits
from tenfold.program.program import Program

MIN_READ_BYTES = 64 << 20
MAX_READ_BYTES = 1 << 30
# Bits a weight as packed, to within a few percent; they only split the known sum of bytes between matrices.
_BITS = {
    **dict.fromkeys(("f32", "f16", "bf16"), 16.0),
    "q4_0": 4.5,
    "q4_1": 5.0,
    "q5_0": 5.5,
    "q5_1": 6.0,
    "q8_0": 8.5,
    "q2_k": 2.625,
    "q3_k": 3.5,
    "q4_k": 4.625,
    "q5_k": 5.625,
    "q6_k": 6.625,
}


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine's threads can do at most, measured.

    Args:
        int8_gops: int8 dot products, 1e9 operations a second (a multiply and an add are two).
        bf16_gflops: bf16 dot products, likewise.
        fp32_gflops: float32 multiply-adds, likewise.
        memory_read_gbs: reads of `read_bytes` bytes over and over, 1e9 bytes a second.
        read_bytes: near the model's size, because smaller areas stay in the CPU's caches.
    """

    int8_gops: float
    bf16_gflops: float
    fp32_gflops: float
    memory_read_gbs: float
    read_bytes: int


class Chunk(msgspec.Struct, frozen=True):
    """One sequence's share of a step: `count` tokens from `start`; `sample` asks for the last's logits."""

    start: int
    count: int
    sample: bool


class StepCost(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes read and operations done, over one step or summed over several.

    Args:
        weight_bytes: packed weights.
        kv_bytes: keys and values of the positions attended to.
        int8_ops: of linear layers with integer weights that meet int8 activations.
        bf16_flops: of attention and of all other linear layers.
    """

    weight_bytes: float
    kv_bytes: float
    int8_ops: float
    bf16_flops: float

    def seconds(self, ceilings: Ceilings) -> float:
        """The least time on a machine with these ceilings."""
        reading = (self.weight_bytes + self.kv_bytes) / (ceilings.memory_read_gbs * 1e9)
        computing = self.int8_ops / (ceilings.int8_gops * 1e9) + self.bf16_flops / (
            ceilings.bf16_gflops * 1e9
        )
        return max(reading, computing)


def measure_ceilings(isa: str, threads: int, seconds: float, model_bytes: int) -> Ceilings:
    """Measure for about 4 * `seconds`, reading an area of the model's size (64 MiB to 1 GiB)."""
    read_bytes = min(max(model_bytes, MIN_READ_BYTES), MAX_READ_BYTES)
    return Ceilings(**_native.measure_ceilings(isa, threads, seconds, read_bytes), read_bytes=read_bytes)


def best_of(first: Ceilings, second: Ceilings) -> Ceilings:
    """The higher of two measurements, ceiling by ceiling: what the machine has shown that it can do."""
    values = {name: max(getattr(first, name), getattr(second, name)) for name in Ceilings.__struct_fields__}
    return Ceilings(**values)


class Roofline:
    """Prices the steps of one Program.

    Args:
        program: the model.
        weight_bytes: bytes of its packed weights, all together.
        formats: storage type of each matrix ("q4_k"), in the order in which the ops first name them.
        products: what each one's products are made in, "int8" or "bf16".
    """

    def __init__(
        self, program: Program, weight_bytes: int, formats: Sequence[str], products: Sequence[str]
    ) -> None:
        embedding: set[str] = set()
        linear: Counter[str] = Counter()
        logits: Counter[str] = Counter()
        self._attention: Counter[tuple[int, int, int, int | None]] = Counter()
        order: dict[str, None] = {}
        named: tuple[str, ...]
        uses: Counter[str] | None
        for op in program.ops:
            if isinstance(op, Embed):
                named, uses = (op.weight,), None
                embedding.add(program.weights[op.weight].tensor)
            elif isinstance(op, Linear):
                named, uses = op.weights, linear
            elif isinstance(op, Logits):
                named, uses = (op.weight,), logits
            else:
                if isinstance(op, Attention):
                    self._attention[op.num_heads, op.num_kv_heads, op.head_dim, op.window] += 1
                continue
            tensors = [program.weights[name].tensor for name in named]
            order.update(dict.fromkeys(tensors))
            if uses is not None:
                uses.update(tensors)
        sizes = {
            spec.tensor: spec.shape[0] * spec.shape[1]
            for spec in program.weights.values()
            if len(spec.shape) == 2
        }
        kinds = dict(zip(order, formats, strict=True))
        bits = {name: sizes[name] * _BITS[kinds[name]] for name in order}
        share = weight_bytes / sum(bits.values())
        only_embedding = embedding - set(linear) - set(logits)
        self._logit_bytes = share * sum(bits[name] for name in set(logits) - set(linear))
        self._linear_bytes = (
            weight_bytes - self._logit_bytes - share * sum(bits[name] for name in only_embedding)
        )
        made_in = dict(zip(order, products, strict=True))
        self._linear_ops = _operations(linear, sizes, made_in)
        self._logit_ops = _operations(logits, sizes, made_in)

    def price(self, chunks: Iterable[Chunk]) -> StepCost:
        """Cost of one step."""
        tokens = samples = 0
        kv_bytes = flops = 0.0
        for chunk in chunks:
            tokens += chunk.count
            samples += chunk.sample
            for (heads, kv_heads, head_dim, window), layers in self._attention.items():
                end = chunk.start + chunk.count
                first = 0 if window is None else max(0, chunk.start - window + 1)
                kv_bytes += layers * (end - first) * 4 * kv_heads * head_dim
                flops += layers * 4 * heads * head_dim * visible_positions(chunk, window)
        return StepCost(
            weight_bytes=self._linear_bytes + (self._logit_bytes if samples else 0.0),
            kv_bytes=kv_bytes,
            int8_ops=tokens * self._linear_ops[0] + samples * self._logit_ops[0],
            bf16_flops=flops + tokens * self._linear_ops[1] + samples * self._logit_ops[1],
        )


def _operations(uses: Counter[str], sizes: dict[str, int], made_in: dict[str, str]) -> tuple[float, float]:
    """Operations a row on (int8, bf16) dot products."""
    totals = [0.0, 0.0]
    for name, count in uses.items():
        totals[made_in[name] == "bf16"] += 2.0 * sizes[name] * count
    return totals[0], totals[1]


def visible_positions(chunk: Chunk, window: int | None) -> int:
    """Positions that the chunk's tokens see, summed over its tokens."""
    first, last = chunk.start + 1, chunk.start + chunk.count
    if window is None or last <= window:
        return (first + last) * chunk.count // 2
    if first >= window:
        return window * chunk.count
    return (first + window) * (window - first + 1) // 2 + window * (last - window)
