import copy

import pytest

from tenfold.kv.hashing import HashChain
from tenfold.kv.lease import StaleLeaseError, StaleMatchError
from tenfold.kv.manager import KVManager

BLOCK = 4


def compute(kv, owner, tokens, salt=""):
    """Lease, as if computed, and publish all of `tokens`."""
    match = kv.match(tokens, salt)
    lease = kv.lease(owner, match, len(tokens))
    assert lease is not None
    chain = HashChain(salt, kv.block_size)
    chain.extend(tokens)
    kv.publish(lease, chain, len(tokens))
    kv.check()
    return lease


def test_a_second_prompt_shares_the_first_ones_full_blocks():
    kv = KVManager(8, BLOCK)
    first = compute(kv, 1, range(10))
    match = kv.match([*range(8), 99, 98, 97], "")
    assert match.block_ids == first.block_ids[:2]
    assert match.num_tokens == 8
    second = kv.lease(2, match, 11)
    assert second.block_ids[:2] == first.block_ids[:2]
    assert second.block_ids[2] not in first.block_ids
    assert kv.usage == 4 / 8
    assert kv.stats.hit_tokens == 8 and kv.stats.queried_tokens == 21
    kv.release(first)
    kv.check()
    assert kv.usage == 3 / 8
    kv.release(second)
    kv.check()
    assert kv.usage == 0 and kv.num_free_blocks == 8 and kv.num_cached_blocks == 2


@pytest.mark.parametrize("length, cached", [(1, 0), (4, 0), (5, 4), (8, 4), (9, 8), (12, 8), (13, 12)])
def test_a_match_leaves_a_token_to_compute(length, cached):
    kv = KVManager(8, BLOCK)
    compute(kv, 1, range(16))
    assert kv.match(range(length), "").num_tokens == cached


def test_salts_isolate():
    kv = KVManager(8, BLOCK)
    compute(kv, 1, range(9), "one")
    assert kv.match(range(9), "two").num_tokens == 0
    assert kv.match(range(9), "").num_tokens == 0
    assert kv.match(range(9), "one").num_tokens == 8


def test_without_caching_nothing_is_kept_or_shared():
    kv = KVManager(4, BLOCK, enable_prefix_caching=False)
    lease = compute(kv, 1, range(9))
    assert kv.match(range(9), "").num_tokens == 0
    kv.release(lease)
    assert kv.num_cached_blocks == 0 and kv.num_free_blocks == 4
    kv.check()


def test_too_few_blocks_change_nothing():
    kv = KVManager(3, BLOCK)
    assert kv.lease(1, kv.match(range(13), ""), 13) is None
    lease = kv.lease(1, kv.match(range(5), ""), 5)
    assert not kv.extend(lease, 13)
    assert lease.capacity == 8 and kv.num_free_blocks == 1
    assert kv.extend(lease, 12) and lease.capacity == 12
    assert kv.extend(lease, 1) and lease.capacity == 12
    kv.check()


def test_a_match_does_not_count_its_own_blocks_as_free():
    kv = KVManager(3, BLOCK)
    kv.release(compute(kv, 1, range(8)))
    match = kv.match(range(9), "")
    assert match.num_tokens == 8 and kv.num_free_blocks == 3
    assert kv.free_blocks_beside(match) == 1
    assert kv.lease(2, match, 17) is None
    kv.check()
    lease = kv.lease(2, match, 9)
    assert lease.block_ids[:2] == match.block_ids
    kv.check()


def test_eviction_takes_the_oldest_chain_from_its_tail():
    kv = KVManager(6, BLOCK)
    old, new = [100 + i for i in range(12)], [200 + i for i in range(12)]
    kv.release(compute(kv, 1, old))
    kv.release(compute(kv, 2, new))
    assert kv.num_cached_blocks == 6
    kv.lease(3, kv.match([1], ""), 1)
    kv.check()
    assert kv.match([*old, 0], "").num_tokens == 8
    assert kv.match([*new, 0], "").num_tokens == 12
    kv.lease(4, kv.match([1], ""), 8)
    kv.check()
    assert kv.match([*old, 0], "").num_tokens == 0
    assert kv.match([*new, 0], "").num_tokens == 12
    assert kv.stats.evicted_blocks == 3


def test_use_makes_a_chain_young_again():
    kv = KVManager(4, BLOCK)
    kv.release(compute(kv, 1, range(8)))
    kv.release(compute(kv, 2, range(50, 58)))
    kv.release(kv.lease(3, kv.match(range(8), ""), 4))
    assert kv.match([*range(8), 0], "").num_tokens == 8
    kv.lease(4, kv.match([9], ""), 4)
    assert kv.match([*range(8), 0], "").num_tokens == 4
    kv.lease(5, kv.match([9], ""), 8)
    kv.check()
    assert kv.match([*range(8), 0], "").num_tokens == 4
    assert kv.match([*range(50, 58), 0], "").num_tokens == 0


def test_twin_blocks_become_one_when_published():
    kv = KVManager(8, BLOCK)
    a = kv.lease(1, kv.match(range(9), ""), 9)
    b = kv.lease(2, kv.match(range(9), ""), 9)
    assert not set(a.block_ids) & set(b.block_ids)
    chain = HashChain("", BLOCK)
    chain.extend(range(9))
    assert kv.publish(a, chain, 4) == chain.digests[:1]
    assert kv.publish(b, chain, 9) == chain.digests[:2]
    kv.check()
    assert a.block_ids[0] == b.block_ids[0] and a.block_ids[1] != b.block_ids[1]
    kv.publish(a, chain, 9)
    kv.check()
    assert a.block_ids[:2] == b.block_ids[:2] and a.block_ids[2] != b.block_ids[2]
    assert kv.num_free_blocks == 4
    kv.release(a)
    kv.release(b)
    kv.check()
    assert kv.num_cached_blocks == 2


def test_publishing_twice_changes_nothing():
    kv = KVManager(4, BLOCK)
    lease = compute(kv, 1, range(9))
    chain = HashChain("", BLOCK)
    chain.extend(range(9))
    assert list(kv.publish(lease, chain, 9)) == []
    assert list(kv.publish(lease, chain, 4)) == []
    assert lease.published == 2
    kv.check()


def test_publishing_what_is_not_leased_or_hashed_is_refused():
    kv = KVManager(4, BLOCK)
    lease = kv.lease(1, kv.match(range(5), ""), 5)
    chain = HashChain("", BLOCK)
    with pytest.raises(ValueError, match="0 are hashed and 2 leased"):
        kv.publish(lease, chain, 5)
    chain.extend(range(16))
    with pytest.raises(ValueError, match="4 are hashed and 2 leased"):
        kv.publish(lease, chain, 13)


def test_freed_by_counts_blocks_that_nobody_else_holds():
    kv = KVManager(8, BLOCK)
    a = compute(kv, 1, range(9))
    match = kv.match(range(8, 8), "")
    assert match.num_tokens == 0
    b = kv.lease(2, kv.match(range(9), ""), 12)
    assert kv.freed_by([a]) == 1
    assert kv.freed_by([b]) == 1
    assert kv.freed_by([a, b]) == 4
    assert kv.freed_by([a, b], keep=a.block_ids[:2]) == 2


def test_a_released_lease_is_refused():
    kv = KVManager(4, BLOCK)
    lease = kv.lease(1, kv.match(range(5), ""), 5)
    kv.release(lease)
    chain = HashChain("", BLOCK)
    chain.extend(range(5))
    for use in (
        lambda: kv.release(lease),
        lambda: kv.extend(lease, 9),
        lambda: kv.publish(lease, chain, 5),
    ):
        with pytest.raises(StaleLeaseError, match="Lease 1 of sequence 1 was released already"):
            use()
    kv.check()


def test_a_lease_replaced_by_a_later_one_is_refused():
    kv = KVManager(4, BLOCK)
    old = kv.lease(1, kv.match(range(5), ""), 5)
    kv.release(old)
    new = kv.lease(1, kv.match(range(5), ""), 5)
    assert new.generation > old.generation
    with pytest.raises(StaleLeaseError, match="lease 2 replaced it"):
        kv.release(old)
    with pytest.raises(StaleLeaseError):
        kv.extend(copy.copy(new), 9)
    kv.release(new)
    kv.check()


def test_one_owner_has_one_lease():
    kv = KVManager(4, BLOCK)
    kv.lease(1, kv.match(range(5), ""), 5)
    with pytest.raises(ValueError, match="has a lease already"):
        kv.lease(1, kv.match(range(5), ""), 5)


def test_a_match_whose_blocks_were_evicted_is_refused():
    kv = KVManager(2, BLOCK)
    kv.release(compute(kv, 1, range(8)))
    match = kv.match([*range(8), 9], "")
    kv.release(kv.lease(2, kv.match([5], ""), 8))
    with pytest.raises(StaleMatchError, match="evicted after it was matched"):
        kv.lease(3, match, 9)
    kv.check()


def test_a_match_longer_than_the_lease_is_refused():
    kv = KVManager(4, BLOCK)
    kv.release(compute(kv, 1, range(8)))
    with pytest.raises(ValueError, match="more than the 4"):
        kv.lease(2, kv.match([*range(8), 9], ""), 4)


def test_block_size_must_be_positive():
    with pytest.raises(ValueError, match="block_size is 0"):
        KVManager(4, 0)


def test_check_sees_a_lost_reference():
    kv = KVManager(4, BLOCK)
    lease = kv.lease(1, kv.match(range(5), ""), 5)
    lease.block_ids = lease.block_ids[:1]
    lease.capacity = BLOCK
    with pytest.raises(AssertionError, match="counts 1 holders but is in 0 leases"):
        kv.check()
