"""The merges of a SentencePiece vocabulary, which its files leave out: derived from the scores, then cached.

SentencePiece's BPE joins, again and again, the neighbours whose joined text is the best-scored piece.
Whatever text surrounds a piece, the joins inside it come in the same order as when the piece stands alone: so
every piece has at most one last join, which a run over the piece alone finds. One merge a piece is all that
the library needs.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import tempfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tenfold.text.token_codec import SPACE_MARK

_MAGIC = b"tenfold-merges-1\n"
_DIGEST = 32


@dataclass(frozen=True)
class PieceSplits:
    """Where each piece of a vocabulary was last joined.

    Args:
        order: ids of the pieces that arise by a join, best score first.
        cuts: for each of them, how many of its characters its left half has.
        glue: characters after which some piece has a space inside, so that words may not be cut there.
    """

    order: array[int]
    cuts: array[int]
    glue: str

    def merges(self, pieces: Sequence[str]) -> list[tuple[str, str]]:
        """Return the pairs to join, best first. IndexError: they are of another vocabulary."""
        return [(pieces[i][:cut], pieces[i][cut:]) for i, cut in zip(self.order, self.cuts, strict=True)]


def derive_splits(pieces: Sequence[str], scores: Sequence[float], ids: Sequence[int]) -> PieceSplits:
    """Run the joins over each piece alone.

    Args:
        pieces: the vocabulary's texts, by id.
        scores: higher is joined earlier, by id.
        ids: the pieces that take part; control, user-defined and byte pieces do not.
    """
    score_of = {pieces[i]: scores[i] for i in ids}
    ranked = sorted(ids, key=lambda i: -scores[i])
    order, cuts = array("I"), array("I")
    glue: set[str] = set()
    for i in ranked:
        piece = pieces[i]
        if len(piece) < 2:
            continue
        if piece.find(SPACE_MARK, 1) > 0:
            glue.update(a for a, b in itertools.pairwise(piece) if b == SPACE_MARK and a != SPACE_MARK)
        cut = 1 if len(piece) == 2 else _last_cut(piece, score_of)
        if cut and piece[:cut] in score_of and piece[cut:] in score_of:
            order.append(i)
            cuts.append(cut)
    return PieceSplits(order, cuts, "".join(sorted(glue)))


def _last_cut(piece: str, score_of: dict[str, float]) -> int:
    """Return the left half's length at the last join, 0 when the joins stop before the piece is whole."""
    parts = list(piece)
    get = score_of.get
    while len(parts) > 2:
        best = None
        at = 0
        left = parts[0]
        for index in range(1, len(parts)):
            right = parts[index]
            score = get(left + right)
            if score is not None and (best is None or score > best):
                best, at = score, index
            left = right
        if best is None:
            return 0
        parts[at - 1 : at + 1] = [parts[at - 1] + parts[at]]
    return len(parts[0])


def cached_splits(
    pieces: Sequence[str], scores: Sequence[float], ids: Sequence[int], cache_dir: Path | None
) -> PieceSplits:
    """Return the splits from the cache folder, or derive them and put them there.

    A cache that is missing, damaged or not writable only costs the time to derive; it is never an error.
    """
    if cache_dir is None:
        return derive_splits(pieces, scores, ids)
    digest = hashlib.sha256("\0".join(pieces).encode("utf-8", "surrogatepass"))
    digest.update(array("d", scores).tobytes())
    digest.update(array("I", ids).tobytes())
    path = cache_dir / f"merges-{digest.hexdigest()[:32]}.bin"
    splits = _read(path, pieces)
    if splits is None:
        splits = derive_splits(pieces, scores, ids)
        _write(path, splits)
    return splits


def _read(path: Path, pieces: Sequence[str]) -> PieceSplits | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, body = data[len(_MAGIC) : len(_MAGIC) + _DIGEST], data[len(_MAGIC) + _DIGEST :]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        return None
    count = int.from_bytes(body[:4], "little")
    glue_size = int.from_bytes(body[4:8], "little")
    order, cuts = array("I"), array("I")
    start = 8 + glue_size
    width = order.itemsize * count
    order.frombytes(body[start : start + width])
    cuts.frombytes(body[start + width : start + 2 * width])
    if len(cuts) != count or (count and max(order) >= len(pieces)):
        return None
    return PieceSplits(order, cuts, body[8:start].decode())


def _write(path: Path, splits: PieceSplits) -> None:
    glue = splits.glue.encode()
    body = len(splits.order).to_bytes(4, "little") + len(glue).to_bytes(4, "little") + glue
    body += splits.order.tobytes() + splits.cuts.tobytes()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(body).digest() + body)
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
