"""The numpy twin of the native sampler: float64, whole sorts, same random numbers and tie rules.

Order, as in vLLM's v1 sampler with typical_p added after min_p: raw log probabilities, masks, banned ids,
logit_bias, repetition, frequency and presence penalties, temperature, min_p, typical_p, top_k, top_p, draw.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int32]
Offsets: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Bits: TypeAlias = npt.NDArray[np.uint32]
Indices: TypeAlias = npt.NDArray[np.intp]

Number = TypeVar("Number", np.int32, np.float32)

GREEDY_BELOW = 1e-5
_SMALLEST_EXPONENT = -86.0  # below it a token is never drawn: its weight would leave float32's normal numbers
_LARGEST = float(np.finfo(np.float32).max)


class SamplingColumns(Protocol):
    """Sampling parameters of n rows, as `_native.SamplingArrays` takes them.

    `floats` is [n, 7]: temperature, top_p, min_p, typical_p, repetition, presence and frequency penalty.
    Ids of row i are at offsets[i] to offsets[i + 1]. Its mask is masks[mask_rows[i]], none where that is -1:
    bit t % 32 of word t / 32 is set where token t may be picked.
    """

    @property
    def floats(self) -> Floats: ...  # noqa: D102
    @property
    def top_k(self) -> Ints: ...  # noqa: D102
    @property
    def seed(self) -> Words: ...  # noqa: D102
    @property
    def draw(self) -> Words: ...  # noqa: D102
    @property
    def num_logprobs(self) -> Ints: ...  # noqa: D102
    @property
    def prompt_ids(self) -> Ints: ...  # noqa: D102
    @property
    def prompt_offsets(self) -> Offsets: ...  # noqa: D102
    @property
    def output_ids(self) -> Ints: ...  # noqa: D102
    @property
    def output_offsets(self) -> Offsets: ...  # noqa: D102
    @property
    def bias_ids(self) -> Ints: ...  # noqa: D102
    @property
    def bias_offsets(self) -> Offsets: ...  # noqa: D102
    @property
    def bias_values(self) -> Floats: ...  # noqa: D102
    @property
    def banned_ids(self) -> Ints: ...  # noqa: D102
    @property
    def banned_offsets(self) -> Offsets: ...  # noqa: D102
    @property
    def mask_rows(self) -> Ints: ...  # noqa: D102
    @property
    def masks(self) -> Bits: ...  # noqa: D102


def uniform(seed: int, draw: int) -> float:
    """The draw-th number of a seed in [0, 1): the upper 53 bits of Philox 4x32-10, counter draw, key seed."""
    mask = 0xFFFFFFFF
    c = (draw & mask, draw >> 32, 0, 0)
    k = (seed & mask, seed >> 32)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = ((b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask)
        k = ((k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask)
    return float(((c[0] << 32 | c[1]) >> 11) * 2.0**-53)


def sample(logits: Floats, arrays: SamplingColumns) -> tuple[Ints, Floats, Ints, Floats]:
    """Pick a token for each row of logits, float32 [rows, vocab].

    Returns:
        tokens [rows], -1 where all logits are NaN or -inf; their raw log probabilities [rows], 0 if not
        asked for; ids of the likeliest tokens [rows, most], padded with -1; their log probabilities, padded
        with -inf.
    """
    rows = len(logits)
    tokens = np.full(rows, -1, np.int32)
    logprobs = np.zeros(rows, np.float32)
    tops: list[tuple[Indices, Doubles]] = []
    for i in range(rows):
        raw = _clean(logits[i].astype(np.float64))
        tokens[i] = pick(raw.copy(), arrays, i)
        finite = np.flatnonzero(raw > -np.inf)
        if arrays.num_logprobs[i] < 0 or not len(finite):
            tops.append((finite[:0], raw[:0]))
            continue
        logs = _log_softmax(raw)
        best = finite[np.argsort(-raw[finite], kind="stable")][: arrays.num_logprobs[i]]
        tops.append((best, logs[best]))
        if tokens[i] >= 0:
            logprobs[i] = logs[tokens[i]]
    return tokens, logprobs, *_side_by_side(tops)


def score(logits: Floats, targets: Ints, most: int) -> tuple[Floats, Ints, Ints, Floats]:
    """How likely a token is in each row of logits, float32 [rows, vocab]; targets is int32 [rows].

    Returns:
        log probabilities [rows]; how many tokens are at least as likely [rows], 0 where all logits are NaN or -inf;
        ids of the `most` likeliest tokens, padded with -1; their log probabilities, padded with -inf.
    """
    logprobs = np.full(len(logits), -_LARGEST, np.float32)
    ranks = np.zeros(len(logits), np.int32)
    tops: list[tuple[Indices, Doubles]] = []
    for i, target in enumerate(targets):
        raw = _clean(logits[i].astype(np.float64))
        finite = np.flatnonzero(raw > -np.inf)
        if not len(finite):
            tops.append((finite, raw[:0]))
            continue
        logs = _log_softmax(raw)
        best = finite[np.argsort(-raw[finite], kind="stable")][:most]
        tops.append((best, logs[best]))
        logprobs[i] = logs[target]
        ranks[i] = np.count_nonzero(raw >= raw[target])
    return logprobs, ranks, *_side_by_side(tops)


def pick(logits: Doubles, arrays: SamplingColumns, i: int) -> int:
    """The token of row i, or -1; logits [vocab] without NaN are overwritten."""
    _edit(logits, arrays, i)
    logits = _clean(logits)
    top = logits.max(initial=-np.inf)
    if top == -np.inf:
        return -1
    temperature = float(arrays.floats[i, 0])
    if not temperature >= GREEDY_BELOW:
        return int(logits.argmax())
    exponents = (logits - top) / temperature
    weights = np.where(exponents >= _SMALLEST_EXPONENT, np.exp(exponents), 0.0)
    ids = keep(weights, arrays, i)
    reached = weights[ids].cumsum()
    share = uniform(int(arrays.seed[i]), int(arrays.draw[i]))
    place = int(np.searchsorted(reached, share * reached[-1], "right"))
    return int(ids[min(place, len(ids) - 1)])


def keep(weights: Doubles, arrays: SamplingColumns, i: int) -> Indices:
    """Rising ids that min_p, typical_p, top_k and top_p of row i leave; weights [vocab] reach 1."""
    top_p, min_p, typical_p = (float(x) for x in arrays.floats[i, 1:4])
    ids = np.flatnonzero((weights > 0) & (weights >= min(min_p, 1.0)))
    if typical_p < 1:
        logs = np.log(weights[ids])
        distances = np.abs(logs - (weights[ids] * logs).sum() / weights[ids].sum())
        ids = _best(ids, weights, distances, typical_p)
    if 0 < arrays.top_k[i] < len(ids):
        ids = np.sort(ids[np.argsort(-weights[ids], kind="stable")][: arrays.top_k[i]])
    if top_p < 1:
        ids = _best(ids, weights, -weights[ids], top_p)
    return ids


def _best(ids: Indices, weights: Doubles, keys: Doubles, share: float) -> Indices:
    """The fewest ids of smallest (key, id) that hold a share of the mass, rising."""
    ordered = ids[np.argsort(keys, kind="stable")]
    reached = weights[ordered].cumsum()
    count = int(np.searchsorted(reached, share * reached[-1], "left")) + 1
    return np.sort(ordered[:count])


def _log_softmax(raw: Doubles) -> Doubles:
    logs: Doubles = raw - raw.max() - np.log(np.exp(raw - raw.max()).sum())
    # Never infinite, so that it can be written as JSON.
    return np.asarray(np.maximum(logs, -_LARGEST), np.float64)


def _side_by_side(tops: list[tuple[Indices, Doubles]]) -> tuple[Ints, Floats]:
    most = max((len(ids) for ids, _ in tops), default=0)
    top_ids = np.full((len(tops), most), -1, np.int32)
    top_logprobs = np.full((len(tops), most), -np.inf, np.float32)
    for i, (ids, logs) in enumerate(tops):
        top_ids[i, : len(ids)] = ids
        top_logprobs[i, : len(ids)] = logs
    return top_ids, top_logprobs


def _clean(logits: Doubles) -> Doubles:
    logits = np.where(np.isnan(logits), -np.inf, logits)
    return np.where(logits > _LARGEST, _LARGEST, logits)


def _edit(logits: Doubles, arrays: SamplingColumns, i: int) -> None:
    """The mask, bans, biases and penalties of row i, in place."""
    repetition, presence, frequency = (float(x) for x in arrays.floats[i, 4:7])
    if arrays.mask_rows[i] >= 0:
        bits = np.arange(len(logits))
        words = arrays.masks[arrays.mask_rows[i]][bits // 32]
        logits[(words >> (bits % 32).astype(np.uint32)) & 1 == 0] = -np.inf
    logits[_slice(arrays.banned_ids, arrays.banned_offsets, i)] = -np.inf
    np.add.at(
        logits,
        _slice(arrays.bias_ids, arrays.bias_offsets, i),
        _slice(arrays.bias_values, arrays.bias_offsets, i).astype(np.float64),
    )
    output = _slice(arrays.output_ids, arrays.output_offsets, i)
    if repetition != 1:
        seen = np.union1d(_slice(arrays.prompt_ids, arrays.prompt_offsets, i), output).astype(np.intp)
        logits[seen] = np.where(logits[seen] > 0, logits[seen] / repetition, logits[seen] * repetition)
    ids, counts = np.unique(output, return_counts=True)
    logits[ids] -= frequency * counts
    logits[ids] -= presence


def _slice(values: npt.NDArray[Number], offsets: Offsets, i: int) -> npt.NDArray[Number]:
    return values[offsets[i] : offsets[i + 1]]
