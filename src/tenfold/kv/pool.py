"""The pool of KV blocks: which are free, which are held and by how many, which are idle but worth keeping."""

from __future__ import annotations

from collections import OrderedDict


class BlockPool:
    """Blocks 0 to num_blocks - 1, each in exactly one state.

    - free: holds nothing of use;
    - held: in one or more leases, counted;
    - idle: in no lease, kept for its content; idle blocks are kept in the order in which they became idle.

    The pool knows neither sequences nor content; it only counts.
    """

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 1:
            raise ValueError(f"num_blocks is {num_blocks}; a pool needs at least 1 block.")
        self.num_blocks = num_blocks
        self.counts = [0] * num_blocks
        self._free = list(range(num_blocks - 1, -1, -1))
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def num_free(self) -> int:
        """Blocks that hold nothing of use."""
        return len(self._free)

    @property
    def num_idle(self) -> int:
        """Blocks in no lease, kept for their content."""
        return len(self._idle)

    @property
    def num_held(self) -> int:
        """Blocks in at least one lease."""
        return self.num_blocks - len(self._free) - len(self._idle)

    def take(self) -> int:
        """Turn a free block into one held once; IndexError when none is free."""
        block = self._free.pop()
        self.counts[block] = 1
        return block

    def hold(self, block: int) -> None:
        """Add a holder to a held or idle block."""
        count = self.counts[block]
        if count == 0:
            del self._idle[block]
        self.counts[block] = count + 1

    def drop(self, block: int, *, keep: bool) -> None:
        """Take a holder away; the last one leaves the block idle if `keep`, else free."""
        count = self.counts[block] - 1
        if count < 0:
            raise ValueError(f"Block {block} is dropped but nobody holds it.")
        self.counts[block] = count
        if count == 0:
            if keep:
                self._idle[block] = None
            else:
                self._free.append(block)

    def reclaim(self) -> int:
        """Free the block that has been idle longest and return it; KeyError when none is idle."""
        block, _ = self._idle.popitem(last=False)
        self._free.append(block)
        return block

    def is_idle(self, block: int) -> bool:
        """Whether the block is in no lease but kept for its content."""
        return block in self._idle

    def idle_blocks(self) -> tuple[int, ...]:
        """Idle blocks, the next to be reclaimed first."""
        return tuple(self._idle)

    def check(self) -> None:
        """Raise AssertionError with a sentence unless every block is in exactly one state."""
        free, idle = set(self._free), set(self._idle)
        assert len(free) == len(self._free), "A block is in the free list twice."
        both = free & idle
        assert not both, f"Blocks {sorted(both)} are both free and idle."
        for block, count in enumerate(self.counts):
            loose = block in free or block in idle
            assert count >= 0, f"Block {block} has {count} holders."
            assert (count == 0) == loose, f"Block {block} has {count} holders and loose is {loose}."
