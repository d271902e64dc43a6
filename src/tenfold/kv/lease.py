"""A lease: the KV blocks that one sequence holds."""

from __future__ import annotations

from dataclasses import dataclass

from tenfold.core.errors import EngineError


class StaleLeaseError(EngineError):
    """A lease was used after its release, or is not the one its owner now holds."""


class StaleMatchError(EngineError):
    """A match names blocks that have been evicted since."""


@dataclass(frozen=True, slots=True)
class Match:
    """The longest cached prefix of some tokens. It holds nothing: lease it before anything else is leased.

    Args:
        block_ids: the cached blocks, in order.
        digests: their digests.
        num_tokens: tokens that they cover.
    """

    block_ids: tuple[int, ...] = ()
    digests: tuple[bytes, ...] = ()
    num_tokens: int = 0


@dataclass(eq=False, slots=True)
class Lease:
    """Blocks held by one owner; only `KVManager` changes it.

    Args:
        owner: the sequence's id.
        generation: unlike that of any other lease of the same manager; never valid again once released.
        block_ids: the owner's blocks, covering positions 0 to capacity - 1.
        capacity: tokens that the blocks can hold.
        published: of the blocks, how many at the start are in the prefix index, so read-only.
    """

    owner: int
    generation: int
    block_ids: tuple[int, ...]
    capacity: int
    published: int
