"""The sampling parameters of one step's rows, as the arrays of one native call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from tenfold import _native
from tenfold.core.sampling_params import SamplingParams

Ints: TypeAlias = npt.NDArray[np.int32]
Offsets: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Bits: TypeAlias = npt.NDArray[np.uint32]
Floats: TypeAlias = npt.NDArray[np.float32]

_WORD = 2**64 - 1
_NO_IDS: Ints = np.empty(0, np.int32)
_NO_MASKS: Bits = np.empty((0, 1), np.uint32)


class SamplingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of logits to sample from.

    Args:
        params: how to pick.
        seed: the completion's own seed, any int; it counts modulo 2**64.
        draw: how many tokens this completion has drawn before.
        prompt_ids: the prompt, read only under a repetition penalty.
        output_ids: the tokens so far, read only under a penalty. `array("i")` and int32 arrays are read
            without converting each token; tuples and lists work too.
        banned_ids: tokens that must not be picked (end tokens below min_tokens).
        mask: uint32 [ceil(vocabulary / 32)]: bit i % 32 of word i / 32 is set where token i may be picked; None
            where all may. All masks of a step have one length.
    """

    params: SamplingParams
    seed: int
    draw: int
    prompt_ids: Sequence[int] | Ints = ()
    output_ids: Sequence[int] | Ints = ()
    banned_ids: tuple[int, ...] = ()
    mask: Bits | None = None


class SamplingBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Arrays of n rows, named as the arguments of `_native.SamplingArrays`.

    Ids of row i are at offsets[i] to offsets[i + 1].

    Args:
        floats: [n, 7]: temperature, top_p, min_p, typical_p, repetition, presence and frequency penalty.
        top_k: [n], 0 or less for all.
        seed: [n].
        draw: [n].
        num_logprobs: [n], -1 for none.
        prompt_ids: empty for rows without repetition penalty.
        prompt_offsets: [n + 1].
        output_ids: empty for rows without penalties.
        output_offsets: [n + 1].
        bias_ids: the keys of logit_bias.
        bias_offsets: [n + 1].
        bias_values: one a bias id.
        banned_ids: tokens that must not be picked.
        banned_offsets: [n + 1].
        mask_rows: [n]: the row's number among the masks, -1 for none.
        masks: [m, words]: a bit a token, set where it may be picked.
    """

    floats: Floats
    top_k: Ints
    seed: Words
    draw: Words
    num_logprobs: Ints
    prompt_ids: Ints
    prompt_offsets: Offsets
    output_ids: Ints
    output_offsets: Offsets
    bias_ids: Ints
    bias_offsets: Offsets
    bias_values: Floats
    banned_ids: Ints
    banned_offsets: Offsets
    mask_rows: Ints
    masks: Bits

    def __len__(self) -> int:
        return len(self.top_k)

    def arguments(self) -> tuple[npt.NDArray[Any], ...]:
        """The arrays but for masks in the order of `_native.SamplingArrays`: `SamplingArrays(*batch.arguments())`."""
        return tuple(getattr(self, name) for name in self.__struct_fields__[:-2])

    def native(self) -> Any:
        """`_native.SamplingArrays` of the rows.

        Raises:
            ValueError: the arrays do not fit together.
        """
        arrays = _native.SamplingArrays(*self.arguments())
        if len(self.masks):
            arrays.set_masks(self.mask_rows, self.masks)
        return arrays


def sampling_batch(rows: Sequence[SamplingRow]) -> SamplingBatch:
    """Gather rows into arrays. Histories are copied only for rows whose penalties read them.

    Raises:
        OverflowError: a token id is outside int32. Ids below 0 are refused by `_native.SamplingArrays`, ids
            past the vocabulary when sampling.
    """
    params = [row.params for row in rows]
    prompt_ids, prompt_offsets = _ragged(
        row.prompt_ids if row.params.repetition_penalty != 1.0 else () for row in rows
    )
    output_ids, output_offsets = _ragged(row.output_ids if _reads_output(row.params) else () for row in rows)
    bias_ids, bias_offsets = _ragged(tuple(p.logit_bias) for p in params)
    banned_ids, banned_offsets = _ragged(row.banned_ids for row in rows)
    mask_rows, masks = _masks(rows)
    floats = [
        (
            p.temperature,
            p.top_p,
            p.min_p,
            p.typical_p,
            p.repetition_penalty,
            p.presence_penalty,
            p.frequency_penalty,
        )
        for p in params
    ]
    return SamplingBatch(
        floats=np.array(floats, np.float32).reshape(len(rows), 7),
        top_k=np.array([p.top_k for p in params], np.int32),
        seed=np.array([row.seed & _WORD for row in rows], np.uint64),
        draw=np.array([row.draw for row in rows], np.uint64),
        num_logprobs=np.array([-1 if p.logprobs is None else p.logprobs for p in params], np.int32),
        prompt_ids=prompt_ids,
        prompt_offsets=prompt_offsets,
        output_ids=output_ids,
        output_offsets=output_offsets,
        bias_ids=bias_ids,
        bias_offsets=bias_offsets,
        bias_values=np.array([value for p in params for value in p.logit_bias.values()], np.float32),
        banned_ids=banned_ids,
        banned_offsets=banned_offsets,
        mask_rows=mask_rows,
        masks=masks,
    )


class SamplingCache:
    """Makes the native arrays of each step; where the same rows come again, only counts on and hands over new masks."""

    def __init__(self) -> None:
        self._rows: Sequence[SamplingRow] = ()
        self._arrays: Any = None

    def arrays(self, rows: Sequence[SamplingRow]) -> Any:
        """`_native.SamplingArrays` of the rows, good until the next call."""
        if self._same(rows):
            self._arrays.set_draw([row.draw for row in rows])
            if any(row.mask is not None for row in rows):
                self._arrays.set_masks(*_masks(rows))
        else:
            self._arrays = sampling_batch(rows).native()
            self._rows = () if any(map(_changes, rows)) else rows
        return self._arrays

    def _same(self, rows: Sequence[SamplingRow]) -> bool:
        known = self._rows
        if len(known) != len(rows) or not known:
            return False
        return all(
            new.params is old.params
            and new.seed == old.seed
            and not new.banned_ids
            and (new.mask is None) == (old.mask is None)
            for new, old in zip(rows, known, strict=True)
        )


def _changes(row: SamplingRow) -> bool:
    """Whether more than the number of draws may differ when this row comes again."""
    return bool(row.banned_ids) or _reads_output(row.params)


def _reads_output(params: SamplingParams) -> bool:
    return (
        params.repetition_penalty != 1.0 or params.presence_penalty != 0.0 or params.frequency_penalty != 0.0
    )


def _masks(rows: Sequence[SamplingRow]) -> tuple[Ints, Bits]:
    """The masks of those rows that have one, stacked, with each row's number among them, -1 for none."""
    masks = [row.mask for row in rows if row.mask is not None]
    numbers = np.full(len(rows), -1, np.int32)
    if not masks:
        return numbers, _NO_MASKS
    numbers[[row.mask is not None for row in rows]] = range(len(masks))
    return numbers, np.stack(masks)


def _ragged(lists: Iterable[Sequence[int] | Ints]) -> tuple[Ints, Offsets]:
    """Join lists of ids; returns them with their offsets."""
    offsets = [0]
    parts: list[Ints] = []
    for ids in lists:
        if len(ids):
            parts.append(np.asarray(ids, dtype=np.int32))
        offsets.append(offsets[-1] + len(ids))
    return np.concatenate(parts) if parts else _NO_IDS, np.array(offsets, np.int64)
