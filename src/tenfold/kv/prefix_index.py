"""The prefix index: which block holds the KV of which prefix."""

from __future__ import annotations

from collections.abc import Sequence


class PrefixIndex:
    """Digest of a full block (see `HashChain`) to the block that holds it, one to one.

    The index is closed: a block's parent is indexed as long as the block is. `KVManager` keeps it so by
    evicting chains from their tails; `check` verifies it.
    """

    def __init__(self) -> None:
        self._blocks: dict[bytes, int] = {}
        self._digests: dict[int, bytes] = {}
        self._parents: dict[int, int | None] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, block: int) -> bool:
        return block in self._digests

    def get(self, digest: bytes) -> int | None:
        """The block that holds this prefix's last block, or None."""
        return self._blocks.get(digest)

    def match(self, digests: Sequence[bytes], limit: int) -> tuple[int, ...]:
        """Blocks of the longest indexed run at the start of `digests`, `limit` blocks at most."""
        found: list[int] = []
        blocks = self._blocks
        for digest in digests[:limit]:
            block = blocks.get(digest)
            if block is None:
                break
            found.append(block)
        return tuple(found)

    def insert(self, digest: bytes, block: int, parent: int | None) -> None:
        """Index `block`, whose prefix continues that of block `parent` (None for a first block)."""
        if digest in self._blocks or block in self._digests:
            raise ValueError(f"Block {block}, or the prefix it holds, is indexed already.")
        if parent is not None and parent not in self._digests:
            raise ValueError(f"Block {block} cannot be indexed: its parent, block {parent}, is not.")
        self._blocks[digest] = block
        self._digests[block] = digest
        self._parents[block] = parent

    def remove(self, block: int) -> None:
        """Forget a block; KeyError if it is not indexed."""
        del self._blocks[self._digests.pop(block)]
        del self._parents[block]

    def parent(self, block: int) -> int | None:
        """The block before `block` in its chain, None for a first block."""
        return self._parents[block]

    def blocks(self) -> tuple[int, ...]:
        """All indexed blocks."""
        return tuple(self._digests)

    def check(self) -> None:
        """Raise AssertionError with a sentence unless the index is one to one and closed."""
        assert len(self._blocks) == len(self._digests) == len(self._parents), "The index is not one to one."
        for digest, block in self._blocks.items():
            assert self._digests.get(block) == digest, f"Block {block} is indexed under two digests."
        for block, parent in self._parents.items():
            known = parent is None or parent in self._digests
            assert known, f"Block {block} is indexed but its parent, block {parent}, is not."
