"""Which running sequence is computing which block, so that no other computes it too."""

from __future__ import annotations

from collections.abc import Iterable


class BlocksInFlight:
    """Digests of the full blocks that running sequences will publish, and who claimed each first."""

    def __init__(self) -> None:
        self._owners: dict[bytes, int] = {}
        self._claims: dict[int, set[bytes]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, digest: bytes) -> int | None:
        """The running sequence that computes this block, if any."""
        return self._owners.get(digest)

    def claims(self, seq_id: int) -> frozenset[bytes]:
        """The digests that this sequence is the first to compute."""
        return frozenset(self._claims.get(seq_id, ()))

    def claim(self, seq_id: int, digests: Iterable[bytes]) -> None:
        """Note that a sequence computes these blocks; those that another one claimed stay that one's."""
        mine = {digest for digest in digests if self._owners.setdefault(digest, seq_id) == seq_id}
        if mine:
            self._claims.setdefault(seq_id, set()).update(mine)

    def done(self, seq_id: int, digests: Iterable[bytes]) -> None:
        """Note that a sequence has published these blocks."""
        mine = self._claims.get(seq_id)
        if mine is None:
            return
        for digest in digests:
            if digest in mine:
                mine.remove(digest)
                del self._owners[digest]
        if not mine:
            del self._claims[seq_id]

    def drop(self, seq_id: int) -> None:
        """Note that a sequence runs no more; whoever waits for its blocks may compute them."""
        for digest in self._claims.pop(seq_id, ()):
            del self._owners[digest]

    def check(self) -> None:
        """Raise AssertionError with a sentence unless both maps say the same."""
        claimed = {digest: seq_id for seq_id, digests in self._claims.items() for digest in digests}
        assert claimed == self._owners, "The blocks in flight and their claims do not agree."
        assert all(self._claims.values()), "A sequence with no claims left is still listed."
