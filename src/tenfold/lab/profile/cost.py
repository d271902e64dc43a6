"""What ops must read and compute over some steps: bytes and operations, from the Program and the packed weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tenfold.lab.roofline import Ceilings, Chunk, visible_positions
from tenfold.program.op import Add, Attention, Embed, GatedActivation, Linear, Logits, Op, RmsNorm, Rope
from tenfold.program.program import Program

_FLOAT, _BF16 = 4, 2
# An int8 activation and its share of a group's scale and sum.
_INT8 = 1.25


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes and operations; a multiply and an add are two operations.

    Args:
        weight_bytes: of weights read, as packed, each once a step.
        kv_bytes: of keys and values read and written, each position once a step.
        activation_bytes: of activations read and written, mostly within the CPU's caches.
        int8_ops: dot products of integer weights and int8 activations.
        bf16_flops: dot products in bfloat16, of attention and of the other weights.
        fp32_flops: elementwise arithmetic in float32.
    """

    weight_bytes: float = 0.0
    kv_bytes: float = 0.0
    activation_bytes: float = 0.0
    int8_ops: float = 0.0
    bf16_flops: float = 0.0
    fp32_flops: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    def scaled(self, factor: float) -> Cost:
        """Every figure times a factor."""
        return Cost(**{name: getattr(self, name) * factor for name in self.__struct_fields__})

    @property
    def operations(self) -> float:
        """Operations of every kind."""
        return self.int8_ops + self.bf16_flops + self.fp32_flops

    @property
    def total_bytes(self) -> float:
        """Bytes of every kind."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes

    def least(self, ceilings: Ceilings) -> dict[str, float]:
        """Seconds that each ceiling allows at the least: "memory" for weights and KV, then dot products, float32."""
        return {
            "memory": (self.weight_bytes + self.kv_bytes) / (ceilings.memory_read_gbs * 1e9),
            "int8": self.int8_ops / (ceilings.int8_gops * 1e9),
            "bf16": self.bf16_flops / (ceilings.bf16_gflops * 1e9),
            "fp32": self.fp32_flops / (ceilings.fp32_gflops * 1e9),
        }


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What some steps computed.

    Args:
        steps: how many.
        sampled_steps: those of them that computed logits.
        chunks: all sequences' shares of all steps.
    """

    steps: int
    sampled_steps: int
    chunks: tuple[Chunk, ...]

    @classmethod
    def of(cls, steps: Iterable[Sequence[Chunk]]) -> Work:
        """Gather steps."""
        all_steps = list(steps)
        return cls(
            steps=len(all_steps),
            sampled_steps=sum(any(chunk.sample for chunk in step) for step in all_steps),
            chunks=tuple(chunk for step in all_steps for chunk in step),
        )

    @property
    def tokens(self) -> int:
        """Tokens computed."""
        return sum(chunk.count for chunk in self.chunks)

    @property
    def samples(self) -> int:
        """Rows of logits."""
        return sum(chunk.sample for chunk in self.chunks)


class Pricer:
    """Prices the ops of one Program over some work.

    Args:
        program: the model.
        sizes: bytes of each packed matrix, in the order in which the ops first name them.
        products: what each matrix's products are made in, "int8" or "bf16", likewise.
        work: what was computed.
    """

    def __init__(self, program: Program, sizes: Sequence[int], products: Sequence[str], work: Work) -> None:
        self._program = program
        order = dict.fromkeys(program.weights[name].tensor for op in program.ops for name in matrices_of(op))
        self._bytes = dict(zip(order, sizes, strict=True))
        self._in_bf16 = {name: kind == "bf16" for name, kind in zip(order, products, strict=True)}
        self._work = work
        self._tokens = work.tokens
        self._samples = work.samples
        self._attended: dict[Attention, Cost] = {}

    def price(self, op: Op) -> Cost:
        """Cost of one op over all the steps."""
        tokens = self._tokens
        match op:
            case Embed():
                rows, columns = self._program.weights[op.weight].shape
                read = tokens * self._bytes[self._tensor(op.weight)] / rows
                return Cost(weight_bytes=read, activation_bytes=tokens * columns * _FLOAT)
            case RmsNorm():
                moved = tokens * (op.x.width + op.out.width) * _FLOAT
                return Cost(activation_bytes=moved, fp32_flops=tokens * 4 * op.x.width)
            case Linear():
                moved = tokens * op.out.width * _FLOAT * (2 if op.add else 1)
                return self._products(op.weights, tokens, self._work.steps) + Cost(activation_bytes=moved)
            case Rope():
                turned = 2 * len(self._program.ropes[op.rope].inv_freq) * (op.x.width // op.head_dim)
                return Cost(activation_bytes=tokens * 2 * turned * _FLOAT, fp32_flops=tokens * 3 * turned)
            case Attention():
                return self._attention(op)
            case GatedActivation():
                moved = tokens * 3 * op.out.width * _FLOAT
                return Cost(activation_bytes=moved, fp32_flops=tokens * 8 * op.out.width)
            case Add():
                return Cost(activation_bytes=tokens * 3 * op.x.width * _FLOAT, fp32_flops=tokens * op.x.width)
            case Logits():
                rows, columns = self._program.weights[op.weight].shape
                moved = self._samples * (rows + columns) * _FLOAT
                products = self._products((op.weight,), self._samples, self._work.sampled_steps)
                return products + Cost(activation_bytes=moved)

    def quantize(self, op: Op) -> Cost:
        """Cost of turning the rows of a linear's input into what its dot products take."""
        if not isinstance(op, Linear):
            return Cost()
        made = self._tokens * op.x.width * self._row_bytes(op.weights)
        read = self._tokens * op.x.width * _FLOAT
        return Cost(activation_bytes=read + made, fp32_flops=self._tokens * 3 * op.x.width)

    def sampling(self) -> Cost:
        """Cost of picking tokens: each row of logits is looked through once."""
        return Cost(activation_bytes=self._samples * self._program.vocab_size * _FLOAT)

    def _tensor(self, weight: str) -> str:
        return self._program.weights[weight].tensor

    def _row_bytes(self, weights: Sequence[str]) -> float:
        forms = {self._in_bf16[self._tensor(name)] for name in weights}
        return sum(_BF16 if in_bf16 else _INT8 for in_bf16 in forms)

    def _products(self, weights: Sequence[str], rows: int, reads: int) -> Cost:
        """Rows times matrices, each matrix read `reads` times."""
        total = Cost()
        for name in weights:
            tensor = self._tensor(name)
            outputs, inputs = self._program.weights[name].shape
            operations = 2.0 * outputs * inputs * rows
            in_bf16 = self._in_bf16[tensor]
            total += Cost(
                weight_bytes=reads * self._bytes[tensor],
                int8_ops=0.0 if in_bf16 else operations,
                bf16_flops=operations if in_bf16 else 0.0,
            )
        width = self._program.weights[weights[0]].shape[1]
        return total + Cost(activation_bytes=rows * width * self._row_bytes(weights))

    def _attention(self, op: Attention) -> Cost:
        # Layers of one shape cost the same.
        shape = msgspec.structs.replace(op, layer=0)
        if shape not in self._attended:
            position = 2 * _BF16 * op.num_kv_heads * op.head_dim
            seen = read = 0
            for chunk in self._work.chunks:
                first = 0 if op.window is None else max(0, chunk.start - op.window + 1)
                read += chunk.start + chunk.count - first
                seen += visible_positions(chunk, op.window)
            rows = op.q.width + op.k.width + op.v.width + op.out.width
            self._attended[shape] = Cost(
                kv_bytes=position * (read + self._tokens),
                activation_bytes=self._tokens * rows * _FLOAT,
                bf16_flops=4.0 * op.num_heads * op.head_dim * seen,
            )
        return self._attended[shape]


def matrices_of(op: Op) -> tuple[str, ...]:
    """The names of the matrices an op reads, in order."""
    if isinstance(op, Linear):
        return op.weights
    return (op.weight,) if isinstance(op, (Embed, Logits)) else ()
