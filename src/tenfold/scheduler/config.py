"""Limits of the scheduler."""

from __future__ import annotations

import msgspec


class SchedulerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the scheduler.

    Args:
        max_num_batched_tokens: tokens computed in one step, at most.
        max_num_seqs: sequences running at once, at most.
        max_model_len: tokens of one sequence, prompt and output together, at most.
        max_waiting: sequences waiting for their first step, at most; more are refused.
        enable_chunked_prefill: let a prompt be computed over several steps; without it a step must have room
            for the longest sequence.
        max_chunk_tokens: tokens of one sequence computed in one step, at most; None leaves it to the budget.
            Smaller chunks share a step among more prompts. Unused without chunked prefill.
        max_prefill_beside_decodes: tokens of prompts computed in a step in which sequences decode, at most, or two
            for each of those sequences if that is more; None leaves it to the budget. Unused without chunked
            prefill.

    Raises:
        ValueError: limits that contradict each other.
    """

    max_num_batched_tokens: int = 512
    max_num_seqs: int = 32
    max_model_len: int = 2048
    max_waiting: int = 1024
    enable_chunked_prefill: bool = True
    max_chunk_tokens: int | None = None
    max_prefill_beside_decodes: int | None = None

    def __post_init__(self) -> None:
        limits = {
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "max_num_seqs": self.max_num_seqs,
            "max_waiting": self.max_waiting,
            "max_chunk_tokens": 1 if self.max_chunk_tokens is None else self.max_chunk_tokens,
            "max_prefill_beside_decodes": 1
            if self.max_prefill_beside_decodes is None
            else self.max_prefill_beside_decodes,
        }
        for name, value in limits.items():
            if value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1.")
        if self.max_model_len < 2:
            raise ValueError(
                f"max_model_len is {self.max_model_len}; it must be at least 2: a prompt and an output token."
            )
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens is {self.max_num_batched_tokens}, below max_num_seqs, "
                f"{self.max_num_seqs}; every running sequence may need a token a step: raise the one or "
                "lower the other."
            )
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise ValueError(
                f"max_num_batched_tokens is {self.max_num_batched_tokens}, below max_model_len, "
                f"{self.max_model_len}; raise it, or enable chunked prefill."
            )
