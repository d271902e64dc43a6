"""What every checkpoint format gives: named tensors, normalized hyperparameters, the tokenizer's source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
import numpy as np
import numpy.typing as npt


class TensorType(Enum):
    """Storage types of weights, with ggml's names. The value is ggml's type number."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    BF16 = 30


def _nothing() -> None:
    """Memory that is no file's is not given back."""


class Tensor(msgspec.Struct, frozen=True):
    """A tensor as it lies in its file.

    Args:
        name: canonical name (GGUF's: "blk.0.attn_q.weight").
        type: how elements are stored.
        shape: rows first, as numpy has it: (out_features, in_features) for a linear weight.
        data: the raw bytes, uint8, one-dimensional, a read-only view of the mapped file.
        file: the file it is in, for error messages.
        offset: its first byte in that file.
        forget: gives back the memory that reading `data` took; it may be read again.
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]
    file: str
    offset: int
    forget: Callable[[], None] = _nothing


class RopeScaling(msgspec.Struct, frozen=True, kw_only=True):
    """How RoPE frequencies are stretched: "linear", "llama3" (Llama 3.1) or "yarn" (arXiv:2309.00071)."""

    kind: Literal["linear", "llama3", "yarn"]
    factor: float
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Hyperparameters, normalized across formats.

    `architecture` has GGUF's names: "llama" (also Mistral, SmolLM2), "qwen2", "qwen3", "gemma3".
    `sliding_window` is None without one; `global_every` says that each such layer, counted from 1, is global
    (Gemma 3: 6) and 0 that every layer has the window (Mistral). `rope_interleaved` is true when Q and K rows
    are stored for adjacent-pair rotation (GGUF's llama), false for half-split. `norm_offset` is added to
    every norm weight (1.0 for Gemma in Hugging Face folders, whose GGUF files have it already added).
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    context_length: int
    rms_norm_eps: float
    rope_theta: float
    rope_theta_local: float | None = None
    rope_scaling: RopeScaling | None = None
    rope_interleaved: bool = False
    rotary_dim: int | None = None
    sliding_window: int | None = None
    global_every: int = 0
    attention_scale: float | None = None
    norm_offset: float = 0.0
    tie_embeddings: bool = False
    activation: Literal["silu", "gelu_tanh"] = "silu"
    logit_softcap: float | None = None
    rope_factors: str | None = None


class TokenizerSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the tokenizer comes from: a tokenizer.json, or GGUF's `tokenizer.*` metadata.

    Args:
        tokenizer_json: path of the file, for folders.
        gguf: metadata whose keys start with "tokenizer.", for GGUF files.
        chat_template: Jinja source, or None for a base model.
        bos_token_id: beginning of text, or None.
        eos_token_ids: every token that ends a turn or a text.
        add_bos: put bos in front of a raw prompt.
        special: named special tokens for the chat template ("bos_token": "<s>", ...).
    """

    tokenizer_json: Path | None = None
    gguf: Mapping[str, Any] | None = None
    chat_template: str | None = None
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    add_bos: bool = False
    special: dict[str, str] = msgspec.field(default_factory=dict)


class Checkpoint(Protocol):
    """A loaded checkpoint: header parsed and checked, weights mapped, nothing copied."""

    @property
    def path(self) -> Path:
        """The file or folder."""

    @property
    def name(self) -> str:
        """A short name for people, from metadata or the path."""

    @property
    def config(self) -> ModelConfig:
        """Normalized hyperparameters."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Tensors by canonical name."""

    @property
    def tokenizer(self) -> TokenizerSource:
        """The tokenizer's source."""

    @property
    def generation_defaults(self) -> Mapping[str, float | int]:
        """Sampling defaults the model's authors recommend ("temperature", "top_p", "top_k", ...)."""
