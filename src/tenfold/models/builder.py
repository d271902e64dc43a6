"""ProgramBuilder: collects the ops of one model and checks each weight against the checkpoint."""

from __future__ import annotations

import numpy as np

from tenfold.checkpoints.checkpoint import Checkpoint, TensorType
from tenfold.core.errors import CheckpointError, UnsupportedModelError
from tenfold.models.rope import rope_spec
from tenfold.program.op import Op, RopeSpec, View
from tenfold.program.program import KVLayout, LayerKV, Program, WeightSpec


class ProgramBuilder:
    """Collects ops, buffers, weights, rotary tables and KV geometry; `finish` gives the Program.

    Args:
        checkpoint: hyperparameters, and the tensors that weights are checked against.

    Raises:
        CheckpointError: hyperparameters that fit no model.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.config = checkpoint.config
        self._checkpoint = checkpoint
        self._ops: list[Op] = []
        self._buffers: dict[str, int] = {}
        self._weights: dict[str, WeightSpec] = {}
        self._ropes: dict[str, RopeSpec] = {}
        self._layers: list[LayerKV] = []
        self._check_config()

    def _check_config(self) -> None:
        config = self.config
        for field in (
            "vocab_size",
            "hidden_size",
            "num_layers",
            "num_heads",
            "num_kv_heads",
            "head_dim",
            "intermediate_size",
            "context_length",
        ):
            if getattr(config, field) < 1:
                raise self._error(f"{field} is {getattr(config, field)}, not a positive number")
        if config.num_heads % config.num_kv_heads:
            raise self._error(
                f"{config.num_heads} query heads cannot share {config.num_kv_heads} key-value heads"
            )
        if config.sliding_window is not None and config.sliding_window < 1:
            raise self._error(f"the sliding window {config.sliding_window} is not a positive number")

    def _error(self, problem: str, tensor: str | None = None) -> CheckpointError:
        return CheckpointError(self._checkpoint.path, problem, tensor=tensor)

    def emit(self, op: Op) -> None:
        """Append an op."""
        self._ops.append(op)

    def buffer(self, name: str, width: int) -> View:
        """The whole of a buffer, made when first named."""
        if self._buffers.setdefault(name, width) != width:
            raise ValueError(
                f"the buffer {name!r} is {self._buffers[name]} wide and was asked for with {width}"
            )
        return View(name, 0, width)

    def weight(self, tensor: str, *shape: int, offset: float = 0.0) -> str:
        """The Program's name of a checkpoint tensor (the same), checked.

        Raises:
            CheckpointError: the tensor is missing or has another shape.
        """
        found = self._checkpoint.tensors.get(tensor)
        if found is None:
            raise self._error(
                f"the tensor is missing; {self.config.architecture} needs it with shape {shape}", tensor
            )
        if tuple(found.shape) != shape:
            raise self._error(
                f"the shape is {tuple(found.shape)}, but the hyperparameters ask for {shape}", tensor
            )
        self._weights[tensor] = WeightSpec(tensor=tensor, shape=shape, offset=offset)
        return tensor

    def bias(self, tensor: str, width: int, *, required: bool = False) -> str | None:
        """The Program's name of a bias, or None when the checkpoint does without."""
        if not required and tensor not in self._checkpoint.tensors:
            return None
        return self.weight(tensor, width)

    def norm_weight(self, tensor: str, width: int) -> str:
        """A norm's weight, with the checkpoint's norm offset."""
        return self.weight(tensor, width, offset=self.config.norm_offset)

    def rope(self, name: str, theta: float, *, scaled: bool = True) -> str:
        """Make a rotary table from the hyperparameters; `scaled` false leaves their stretching out.

        Raises:
            CheckpointError: hyperparameters or factors that give no table.
        """
        config = self.config
        try:
            self._ropes[name] = rope_spec(
                theta,
                config.rotary_dim or config.head_dim,
                context_length=config.context_length,
                scaling=config.rope_scaling if scaled else None,
                factors=self._rope_factors() if scaled else None,
                interleaved=config.rope_interleaved,
            )
        except (ValueError, ZeroDivisionError, OverflowError) as error:
            raise self._error(f"the rotary embedding cannot be made: {error}", config.rope_factors) from error
        return name

    def _rope_factors(self) -> list[float] | None:
        name = self.config.rope_factors
        if name is None:
            return None
        tensor = self._checkpoint.tensors.get(name)
        if tensor is None:
            raise self._error("the rotary factors are missing", name)
        if tensor.type is not TensorType.F32:
            raise self._error(f"rotary factors are of type {tensor.type.name}; only F32 is supported", name)
        factors = np.frombuffer(tensor.data.tobytes(), dtype="<f4")
        if not (np.isfinite(factors).all() and (factors > 0).all()):
            raise self._error("rotary factors are not all positive numbers", name)
        return [float(factor) for factor in factors]

    def window(self, layer: int) -> int | None:
        """The sliding window of a layer, or None when it attends to everything."""
        config = self.config
        is_global = config.global_every > 0 and (layer + 1) % config.global_every == 0
        return None if is_global else config.sliding_window

    def add_layer_kv(self, window: int | None) -> int:
        """Register the next layer's KV geometry; returns the layer's number."""
        self._layers.append(LayerKV(self.config.num_kv_heads, self.config.head_dim, window))
        return len(self._layers) - 1

    def finish(self) -> Program:
        """The Program.

        Raises:
            UnsupportedModelError: the checkpoint's layers have tensors that no op uses.
        """
        for tensor in self._checkpoint.tensors:
            if tensor.startswith("blk.") and tensor not in self._weights and "rot_embd" not in tensor:
                raise UnsupportedModelError(
                    f"{self._checkpoint.path}: the tensor {tensor!r} has no place in the architecture "
                    f"{self.config.architecture!r} as built, and leaving it out would change the model"
                )
        return Program(
            name=self._checkpoint.name,
            ops=tuple(self._ops),
            buffers=self._buffers,
            weights=self._weights,
            ropes=self._ropes,
            kv=KVLayout(tuple(self._layers)),
            vocab_size=self.config.vocab_size,
            context_length=self.config.context_length,
        )
