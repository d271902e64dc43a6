"""Loading a model: checkpoint → Program → packed weights and KV cache, with tokenizer and chat template beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tenfold.checkpoints.cache import cache_folder
from tenfold.checkpoints.checkpoint import Checkpoint, Tensor, TokenizerSource
from tenfold.checkpoints.dequantize import dequantize
from tenfold.checkpoints.open import open_checkpoint
from tenfold.config.engine import EngineSettings
from tenfold.core.errors import TenfoldError
from tenfold.engine.memory import available_memory, total_memory
from tenfold.engine.runner import Runner
from tenfold.grammar.grammars import Grammars
from tenfold.kernels.isa import choose_isa
from tenfold.kernels.lower import Lowering
from tenfold.models.build import build_program
from tenfold.program.program import Program
from tenfold.text.chat_template import MAX_SOURCE_CHARS, ChatTemplate
from tenfold.text.tokenizer import Tokenizer

# Logits are computed for this many rows at a time, which bounds their buffer for large vocabularies.
MAX_LOGIT_ROWS = 32
DEFAULT_KV_BYTES = 2 << 30
MAX_BLOCK_SIZE = 4096
# More than any machine has CPUs for; each thread takes time to start and memory for its stack.
MAX_THREADS = 1024


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model ready to run.

    Args:
        name: for people.
        settings: the settings it was loaded with.
        program: its forward pass.
        runner: runs StepPlans on it.
        tokenizer: text to ids and back.
        grammars: what structured output is compiled by.
        chat_template: None for base models.
        generation_defaults: sampling defaults its authors recommend.
        max_model_len: longest prompt plus output.
        num_blocks: KV blocks.
        chosen: what was not set and therefore chosen: (name, value, why).
    """

    name: str
    settings: EngineSettings
    program: Program
    runner: Runner
    tokenizer: Tokenizer
    grammars: Grammars
    chat_template: ChatTemplate | None
    generation_defaults: Mapping[str, float | int]
    max_model_len: int
    num_blocks: int
    chosen: tuple[tuple[str, str, str], ...]

    @property
    def longest_sequence(self) -> int:
        """Tokens that one sequence may have: the model's limit or the whole cache."""
        return min(self.max_model_len, self.num_blocks * self.settings.block_size)


class _Stored:
    """A checkpoint tensor as the lowering wants it."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self.name, self.file, self.offset = tensor.name, tensor.file, tensor.offset

    @property
    def ggml_type(self) -> int:
        return self._tensor.type.value

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        return self._tensor.data

    def forget(self) -> None:
        self._tensor.forget()

    def floats(self) -> npt.NDArray[np.float32]:
        return dequantize(self._tensor)


def load_model(
    path: Path, settings: EngineSettings | None = None, progress: Callable[[int, int], None] | None = None
) -> Model:
    """Load a GGUF file or a Hugging Face folder.

    Args:
        path: the file or folder.
        settings: how to run it.
        progress: called with (packed, total) weights.

    Raises:
        CheckpointError, UnsupportedModelError: the file cannot be used.
        TenfoldError: the settings do not fit the machine or the model.
    """
    settings = settings or EngineSettings()
    _check_settings(settings)
    checkpoint = open_checkpoint(path)
    program = build_program(checkpoint)
    chosen: list[tuple[str, str, str]] = []
    isa, why = choose_isa(settings.isa, settings.max_num_seqs)
    chosen.append(("isa", isa, why))
    threads = settings.threads or len(os.sched_getaffinity(0))
    if settings.threads is None:
        chosen.append(("threads", str(threads), "the CPUs this process may use"))
    max_model_len = _max_model_len(program, settings)
    num_blocks = _num_blocks(program, settings, max_model_len, chosen)
    tensors = checkpoint.tensors
    native = Lowering(program, lambda name: _Stored(tensors[name]), isa, threads, progress).run(
        max_tokens=settings.max_num_batched_tokens,
        max_logit_rows=min(MAX_LOGIT_ROWS, settings.max_num_batched_tokens),
        num_blocks=num_blocks,
        block_size=settings.block_size,
    )
    tokenizer = load_tokenizer(checkpoint.tokenizer)
    return Model(
        name=checkpoint.name,
        settings=settings,
        program=program,
        runner=Runner(native),
        tokenizer=tokenizer,
        grammars=Grammars(tokenizer, program.vocab_size),
        chat_template=load_chat_template(checkpoint.tokenizer, settings.chat_template),
        generation_defaults=dict(checkpoint.generation_defaults),
        max_model_len=max_model_len,
        num_blocks=num_blocks,
        chosen=tuple(chosen),
    )


def load_tokenizer(source: TokenizerSource) -> Tokenizer:
    """Build the tokenizer from a checkpoint's source."""
    common: dict[str, Any] = {
        "bos_id": source.bos_token_id,
        "eos_ids": source.eos_token_ids,
        "add_bos": source.add_bos,
        "special": source.special,
    }
    if source.tokenizer_json is not None:
        return Tokenizer.from_file(source.tokenizer_json, **common)
    if source.gguf is not None:
        return Tokenizer.from_gguf(source.gguf, cache_dir=cache_folder() / "tokenizers", **common)
    raise TenfoldError(
        "The checkpoint names no tokenizer; a tokenizer.json or GGUF tokenizer metadata is needed."
    )


def load_chat_template(source: TokenizerSource, file: str | None = None) -> ChatTemplate | None:
    """Build the chat template, from `file` if given; None for a base model.

    Raises:
        TenfoldError: the file cannot be read, or the template is not valid.
    """
    text = source.chat_template
    if file is not None:
        try:
            with Path(file).open(encoding="utf-8") as opened:
                # One more than the limit, which ChatTemplate then refuses; an endless file is not read whole.
                text = opened.read(MAX_SOURCE_CHARS + 1)
        except (OSError, ValueError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else problem
            raise TenfoldError(f"The chat template {file} cannot be read: {why}.") from None
    return ChatTemplate(text, source.special) if text else None


def open_model(path: Path) -> tuple[Checkpoint, Program]:
    """Open a checkpoint and build its Program without loading weights."""
    checkpoint = open_checkpoint(path)
    return checkpoint, build_program(checkpoint)


def _check_settings(settings: EngineSettings) -> None:
    try:
        msgspec.convert(msgspec.structs.asdict(settings), EngineSettings)
    except msgspec.ValidationError as problem:
        raise TenfoldError(f"A setting has a wrong value: {problem}.") from None
    if settings.block_size < 16 or settings.block_size % 16 != 0:
        raise TenfoldError(f"block_size is {settings.block_size}; it must be a multiple of 16.")
    limits = {"max_num_seqs": 2**20, "max_num_batched_tokens": 2**20, "max_waiting": 2**20}
    limits["max_prefill_beside_decodes"] = 2**20
    limits |= {"max_model_len": 2**31 - 1, "threads": MAX_THREADS, "block_size": MAX_BLOCK_SIZE}
    for name, limit in limits.items():
        value = getattr(settings, name)
        if value is not None and not 1 <= value <= limit:
            raise TenfoldError(f"{name} is {value}; it must be at least 1 and at most {limit}.")
    if settings.max_num_batched_tokens < settings.max_num_seqs:
        raise TenfoldError(
            f"max_num_batched_tokens is {settings.max_num_batched_tokens}, below max_num_seqs, "
            f"{settings.max_num_seqs}: each running sequence may need a token a step. Raise the one or lower the other."
        )


def _max_model_len(program: Program, settings: EngineSettings) -> int:
    wanted = settings.max_model_len
    if wanted is None:
        return program.context_length
    if wanted > program.context_length:
        raise TenfoldError(
            f"max_model_len is {wanted}, but the model was made for {program.context_length} positions; lower it."
        )
    return wanted


def _num_blocks(
    program: Program, settings: EngineSettings, max_model_len: int, chosen: list[tuple[str, str, str]]
) -> int:
    block_bytes = program.kv.bytes_per_token * settings.block_size
    one_context = -(-max_model_len // settings.block_size)
    if settings.kv_cache_memory_bytes is not None:
        if settings.kv_cache_memory_bytes > total_memory():
            raise TenfoldError(
                f"kv_cache_memory_bytes is {settings.kv_cache_memory_bytes}, but there are only "
                f"{total_memory()} bytes of memory; lower it."
            )
        blocks = settings.kv_cache_memory_bytes // block_bytes
        if blocks < 1:
            raise TenfoldError(
                f"kv_cache_memory_bytes is {settings.kv_cache_memory_bytes}, below one block of {block_bytes} bytes."
            )
        return blocks
    available = available_memory()
    budget = min(DEFAULT_KV_BYTES, available // 3) // block_bytes
    # One whole context is worth more than a third of the memory, but not being killed for using all of it.
    least = min(one_context, available * 3 // 4 // block_bytes)
    blocks = max(min(budget, one_context * settings.max_num_seqs), least, 1)
    if blocks < one_context:
        held = blocks * settings.block_size
        why = (
            f"three quarters of free memory; sequences can have {held} of the model's {max_model_len} tokens"
        )
    else:
        why = f"at most 2 GiB or a third of free memory, and at least one context of {max_model_len} tokens"
    chosen.append(("kv_cache", f"{blocks * block_bytes / 2**20:.0f} MiB", why))
    return blocks
