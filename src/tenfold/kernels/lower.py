"""Lower a Program onto the native interpreter: number its buffers and weights, pack the weights, add its ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tenfold import _native
from tenfold.core.errors import CheckpointError
from tenfold.program.op import (
    Add,
    Attention,
    Embed,
    GatedActivation,
    Linear,
    Logits,
    Op,
    RmsNorm,
    Rope,
    View,
    reads,
)
from tenfold.program.program import Program, WeightSpec


class StoredTensor(Protocol):
    """The part of a checkpoint's tensor that packing needs."""

    name: str
    file: str
    offset: int

    @property
    def ggml_type(self) -> int:
        """The storage type's number in ggml."""

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The stored bytes."""

    def forget(self) -> None:
        """Give back the memory that reading `data` took, once it is packed."""

    def floats(self) -> npt.NDArray[np.float32]:
        """The elements as float32; asked for vectors only."""


class Lowering:
    """One Program on its way into a native one. Matrices are packed when first named; a tied one is packed once.

    Args:
        program: what to lower.
        tensor: gives a stored tensor by its checkpoint name.
        isa: instruction set.
        threads: threads of the resident pool, the caller's included.
        progress: called with (packed, total) weights.
    """

    def __init__(
        self,
        program: Program,
        tensor: Callable[[str], StoredTensor],
        isa: str,
        threads: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._program = program
        self._tensor = tensor
        self._native = _native.Program(isa, threads)
        self._progress = progress
        self._buffers = {name: self._native.add_buffer(width) for name, width in program.buffers.items()}
        self._kept = _kept(program)
        self._matrices: dict[str, int] = {}
        self._vectors: dict[str, int] = {}
        self._ropes = {
            name: self._native.add_rope(spec.inv_freq, spec.factor, spec.interleaved)
            for name, spec in program.ropes.items()
        }

    def run(
        self, *, max_tokens: int, max_logit_rows: int, num_blocks: int, block_size: int
    ) -> _native.Program:
        """Lower all ops and allocate buffers and KV cache.

        Raises:
            CheckpointError: a tensor cannot be packed.
        """
        for op in self._program.ops:
            self._add(op)
        self._native.finish(self._program.vocab_size, max_tokens, max_logit_rows, num_blocks, block_size)
        return self._native

    def _add(self, op: Op) -> None:
        native, view = self._native, self._view
        if isinstance(op, Embed):
            width = self._program.buffers[op.out]
            native.embed((self._buffers[op.out], 0, width), self._matrix(op.weight), op.scale)
        elif isinstance(op, RmsNorm):
            native.rms_norm(view(op.x), view(op.out), self._vector(op.weight), op.eps, op.head_dim or 0)
        elif isinstance(op, Linear):
            weights = [self._matrix(name) for name in op.weights]
            biases = [-1 if name is None else self._vector(name) for name in op.biases]
            native.linear(view(op.x), view(op.out), weights, biases, op.add)
        elif isinstance(op, Rope):
            native.rope(view(op.x), op.head_dim, self._ropes[op.rope])
        elif isinstance(op, Attention):
            native.attention(
                view(op.q),
                view(op.k),
                view(op.v),
                view(op.out),
                op.layer,
                op.num_heads,
                op.num_kv_heads,
                op.head_dim,
                op.scale,
                op.window or 0,
            )
        elif isinstance(op, GatedActivation):
            alone = not {op.gate.buffer, op.up.buffer} & self._kept
            native.gated(view(op.gate), view(op.up), view(op.out), op.kind == "gelu_tanh", alone)
        elif isinstance(op, Add):
            native.add(view(op.x), view(op.out))
        elif isinstance(op, Logits):
            native.logits(view(op.x), self._matrix(op.weight), op.softcap or 0.0)

    def _view(self, view: View) -> tuple[int, int, int]:
        return self._buffers[view.buffer], view.start, view.width

    def _matrix(self, name: str) -> int:
        spec = self._program.weights[name]
        if spec.tensor not in self._matrices:
            tensor = self._tensor(spec.tensor)
            try:
                number = self._native.add_weight(tensor.ggml_type, tensor.data, *spec.shape)
            except ValueError as problem:
                raise CheckpointError(
                    tensor.file, str(problem), tensor=tensor.name, offset=tensor.offset
                ) from None
            tensor.forget()  # else the weights would be in memory twice
            self._matrices[spec.tensor] = number
            if self._progress is not None:
                total = len({w.tensor for w in self._program.weights.values() if len(w.shape) == 2})
                self._progress(len(self._matrices), total)
        return self._matrices[spec.tensor]

    def _vector(self, name: str) -> int:
        if name not in self._vectors:
            self._vectors[name] = self._native.add_vector(self._floats(self._program.weights[name]))
        return self._vectors[name]

    def _floats(self, spec: WeightSpec) -> npt.NDArray[np.float32]:
        tensor = self._tensor(spec.tensor)
        values = tensor.floats() + np.float32(spec.offset)
        if not np.isfinite(values).all():
            raise CheckpointError(
                tensor.file, "it holds NaN or infinite values.", tensor=tensor.name, offset=tensor.offset
            )
        return np.ascontiguousarray(values, dtype=np.float32)


def _kept(program: Program) -> set[str]:
    """Buffers with values that others than one GatedActivation read: those must be written there."""
    kept: set[str] = set()
    joined: set[str] = set()  # read by a GatedActivation since a linear wrote them
    for op in program.ops:
        buffers = {view.buffer for view in reads(op)}
        kept |= buffers & joined if isinstance(op, GatedActivation) else buffers
        joined |= buffers
        if isinstance(op, Linear):
            joined.discard(op.out.buffer)
    return kept
