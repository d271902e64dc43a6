"""The KV manager: leases of blocks, sharing of full blocks, eviction of cached ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tenfold.kv.hashing import HashChain
from tenfold.kv.lease import Lease, Match, StaleLeaseError, StaleMatchError
from tenfold.kv.pool import BlockPool
from tenfold.kv.prefix_index import PrefixIndex


@dataclass(slots=True)
class KVStats:
    """Counts since the start, for metrics.

    Args:
        queried_tokens: tokens of the sequences that took a lease.
        hit_tokens: of them, tokens found in the prefix index.
        evicted_blocks: cached blocks given up for new tokens.
    """

    queried_tokens: int = 0
    hit_tokens: int = 0
    evicted_blocks: int = 0


class KVManager:
    """Leases the KV blocks of one engine.

    A sequence holds one lease at a time. Full blocks whose KV is computed are published to the prefix index;
    from then on they are read-only and may be in several leases. A published block that nobody holds stays
    cached until its room is needed; the block unused longest goes first, and a chain goes from its tail,
    because its tail is of no use without its head.

    Not safe for use by several threads at once.

    Args:
        num_blocks: blocks in the cache; ids are 0 to num_blocks - 1.
        block_size: tokens a block.
        enable_prefix_caching: without it nothing is published, so nothing is shared.
    """

    def __init__(self, num_blocks: int, block_size: int, *, enable_prefix_caching: bool = True) -> None:
        if block_size < 1:
            raise ValueError(f"block_size is {block_size}; it must be at least 1.")
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.enable_prefix_caching = enable_prefix_caching
        self.stats = KVStats()
        self._pool = BlockPool(num_blocks)
        self._index = PrefixIndex()
        self._leases: dict[int, Lease] = {}
        self._generation = 0

    @property
    def num_free_blocks(self) -> int:
        """Blocks that a lease can get: free ones and cached ones that nobody holds."""
        return self._pool.num_free + self._pool.num_idle

    @property
    def num_cached_blocks(self) -> int:
        """Blocks in the prefix index, held or not."""
        return len(self._index)

    @property
    def usage(self) -> float:
        """Share of the blocks that are leased, 0 to 1."""
        return self._pool.num_held / self.num_blocks

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks needed to hold this many tokens."""
        return -(-num_tokens // self.block_size)

    def match(self, token_ids: Sequence[int], salt: str) -> Match:
        """Longest cached prefix of `token_ids` in full blocks, never all tokens: one is left to compute."""
        chain = HashChain(salt, self.block_size)
        if self.enable_prefix_caching:
            chain.extend(token_ids)
        return self.match_chain(chain, len(token_ids))

    def match_chain(self, chain: HashChain, num_tokens: int) -> Match:
        """`match` for a sequence of `num_tokens` tokens whose full blocks are hashed already."""
        if not self.enable_prefix_caching:
            return Match()
        found = self._index.match(chain.digests, max(0, num_tokens - 1) // self.block_size)
        if not found:
            return Match()
        return Match(found, tuple(chain.digests[: len(found)]), len(found) * self.block_size)

    def free_blocks_beside(self, match: Match) -> int:
        """Blocks that a lease of `match` can get besides the match's own."""
        return self.num_free_blocks - sum(map(self._pool.is_idle, match.block_ids))

    def freed_by(self, leases: Iterable[Lease], keep: Collection[int] = ()) -> int:
        """Blocks outside `keep` that nobody would hold after the release of all these leases."""
        drops = Counter(block for lease in leases for block in lease.block_ids)
        counts = self._pool.counts
        kept = set(keep)
        return sum(1 for block, dropped in drops.items() if counts[block] == dropped and block not in kept)

    def lease(self, owner: int, match: Match, num_tokens: int) -> Lease | None:
        """Lease the match's blocks and new ones, to hold `num_tokens` tokens.

        Returns None, with nothing changed, when there are too few blocks.

        Raises:
            StaleMatchError: a block of the match was evicted since.
            ValueError: the owner has a lease already, or the match is longer than num_tokens.
        """
        if owner in self._leases:
            raise ValueError(f"Sequence {owner} has a lease already; release it first.")
        if match.num_tokens > num_tokens:
            raise ValueError(
                f"The match has {match.num_tokens} tokens, more than the {num_tokens} to be leased."
            )
        for digest, block in zip(match.digests, match.block_ids, strict=True):
            if self._index.get(digest) != block:
                raise StaleMatchError(f"Block {block} was evicted after it was matched; match again.")
        if self.blocks_for(num_tokens) - len(match.block_ids) > self.free_blocks_beside(match):
            return None
        for block in match.block_ids:
            self._pool.hold(block)
        self._generation += 1
        shared = len(match.block_ids)
        lease = Lease(owner, self._generation, match.block_ids, shared * self.block_size, shared)
        self._leases[owner] = lease
        granted = self.extend(lease, num_tokens)
        assert granted, "Blocks counted as free could not be leased."
        self.stats.queried_tokens += num_tokens
        self.stats.hit_tokens += match.num_tokens
        return lease

    def extend(self, lease: Lease, num_tokens: int) -> bool:
        """Add blocks until the lease holds `num_tokens` tokens; False, and no change, when too few are free.

        Raises:
            StaleLeaseError: the lease was released.
        """
        self._refuse_stale(lease)
        short = self.blocks_for(num_tokens) - len(lease.block_ids)
        if short <= 0:
            return True
        if short > self.num_free_blocks:
            return False
        lease.block_ids += tuple(self._new_block() for _ in range(short))
        lease.capacity = len(lease.block_ids) * self.block_size
        return True

    def publish(self, lease: Lease, chain: HashChain, num_tokens: int) -> Sequence[bytes]:
        """Index the lease's full blocks among its first `num_tokens` tokens, whose KV must be computed.

        Where the same prefix is indexed already, the lease takes that block instead and its own is freed:
        equal prefixes have equal bytes, and so a chain is never split over two copies.

        Args:
            lease: whose blocks.
            chain: digests of at least those blocks.
            num_tokens: tokens computed so far.

        Returns:
            The digests of the blocks that were not published before.

        Raises:
            StaleLeaseError: the lease was released.
            ValueError: the chain or the lease is shorter than num_tokens.
        """
        self._refuse_stale(lease)
        if not self.enable_prefix_caching:
            return ()
        first, end = lease.published, num_tokens // self.block_size
        if end > len(chain.digests) or end > len(lease.block_ids):
            raise ValueError(
                f"{end} full blocks of sequence {lease.owner} are to be published, but "
                f"{len(chain.digests)} are hashed and {len(lease.block_ids)} leased."
            )
        digests = chain.digests[first:end]
        parent = lease.block_ids[first - 1] if first else None
        for position, digest in enumerate(digests, first):
            block = lease.block_ids[position]
            known = self._index.get(digest)
            if known is None:
                self._index.insert(digest, block, parent)
            else:
                self._pool.hold(known)
                self._pool.drop(block, keep=False)
                ids = lease.block_ids
                lease.block_ids = (*ids[:position], known, *ids[position + 1 :])
                block = known
            parent = block
        lease.published = max(first, end)
        return digests

    def release(self, lease: Lease) -> None:
        """End a lease: published blocks stay cached until their room is needed, others are free at once.

        Raises:
            StaleLeaseError: the lease was released before.
        """
        self._refuse_stale(lease)
        del self._leases[lease.owner]
        # Tail first: what is idle longest is evicted first, and a chain must lose its tail before its head.
        for position in range(len(lease.block_ids) - 1, -1, -1):
            self._pool.drop(lease.block_ids[position], keep=position < lease.published)

    def leases(self) -> tuple[Lease, ...]:
        """All leases in force."""
        return tuple(self._leases.values())

    def check(self) -> None:
        """Raise AssertionError with a sentence unless pool, index and leases agree; O(num_blocks)."""
        pool, index = self._pool, self._index
        pool.check()
        index.check()
        total = pool.num_free + pool.num_idle + pool.num_held
        assert total == self.num_blocks, (
            f"Free, cached and leased blocks sum to {total}, not {self.num_blocks}."
        )
        holders: Counter[int] = Counter()
        for owner, lease in self._leases.items():
            self._check_lease(owner, lease)
            holders.update(lease.block_ids)
        for block, count in enumerate(pool.counts):
            assert holders[block] == count, (
                f"Block {block} counts {count} holders but is in {holders[block]} leases."
            )
            if count > 1:
                assert block in index, f"Block {block} is shared by {count} leases but is not published."
        reclaimed: set[int] = set()
        for block in pool.idle_blocks():
            assert block in index, f"Block {block} is kept idle but the index does not know it."
            parent = index.parent(block)
            assert parent not in reclaimed, (
                f"Block {block} would be evicted after its parent, block {parent}."
            )
            reclaimed.add(block)
        for block in index.blocks():
            assert pool.counts[block] or block in reclaimed, f"Block {block} is both indexed and free."

    def _check_lease(self, owner: int, lease: Lease) -> None:
        ids = lease.block_ids
        assert lease.owner == owner, f"The lease of sequence {owner} names sequence {lease.owner}."
        assert lease.generation <= self._generation, f"The lease of sequence {owner} is from the future."
        assert len(set(ids)) == len(ids), f"The lease of sequence {owner} holds a block twice."
        assert lease.capacity == len(ids) * self.block_size, (
            f"The lease of sequence {owner} has a wrong capacity."
        )
        parent: int | None = None
        for position, block in enumerate(ids):
            published = position < lease.published
            assert (block in self._index) == published, (
                f"Block {block} of sequence {owner} is {'not ' if published else ''}in the prefix index."
            )
            if published:
                assert self._index.parent(block) == parent, (
                    f"Block {block} of sequence {owner} is off its chain."
                )
            parent = block

    def _new_block(self) -> int:
        if not self._pool.num_free:
            self._index.remove(self._pool.reclaim())
            self.stats.evicted_blocks += 1
        return self._pool.take()

    def _refuse_stale(self, lease: Lease) -> None:
        current = self._leases.get(lease.owner)
        if current is None:
            raise StaleLeaseError(f"Lease {lease.generation} of sequence {lease.owner} was released already.")
        if current is not lease or current.generation != lease.generation:
            raise StaleLeaseError(
                f"Lease {lease.generation} of sequence {lease.owner} is stale: "
                f"lease {current.generation} replaced it."
            )
