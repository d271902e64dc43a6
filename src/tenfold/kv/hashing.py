"""The hash chain that names full KV blocks by their whole prefix."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b

DIGEST_BYTES = 32
MAX_TOKEN_ID = 2**32 - 1

_DOMAIN = b"tenfold kv 1"


def root_digest(salt: str) -> bytes:
    """Digest that stands before the first block of every chain with this salt.

    The salt is framed by its length, so no two salts can be read as one another. It is encoded so that any
    Python string is accepted, lone surrogates too.
    """
    data = salt.encode("utf-8", "surrogatepass")
    return blake2b(_DOMAIN + struct.pack("<Q", len(data)) + data, digest_size=DIGEST_BYTES).digest()


class HashChain:
    """Digests of the full blocks of one token sequence, grown as tokens become known.

    Each digest covers its parent's digest and the block's token ids (little-endian uint32), hence the salt
    and every token before it. There is no seed: two processes give the same digests. 256 bits, so that a
    tenant cannot search for two prompts that collide.

    Args:
        salt: chains with different salts have no digest in common.
        block_size: tokens a block.
    """

    __slots__ = ("_pack", "_root", "block_size", "digests")

    def __init__(self, salt: str, block_size: int) -> None:
        self.block_size = block_size
        self.digests: list[bytes] = []
        self._root = root_digest(salt)
        self._pack = struct.Struct(f"<{block_size}I").pack

    @property
    def num_tokens(self) -> int:
        """Tokens hashed so far; always whole blocks."""
        return len(self.digests) * self.block_size

    def extend(self, token_ids: Sequence[int]) -> None:
        """Hash the full blocks in `token_ids`, from position `num_tokens` on; a partial tail is left."""
        size, pack, digests = self.block_size, self._pack, self.digests
        parent = digests[-1] if digests else self._root
        for start in range(0, len(token_ids) - size + 1, size):
            block = pack(*token_ids[start : start + size])
            parent = blake2b(parent + block, digest_size=DIGEST_BYTES).digest()
            digests.append(parent)
