import pytest

from tenfold.kv.pool import BlockPool


def test_blocks_go_round_through_all_states():
    pool = BlockPool(3)
    a, b, c = pool.take(), pool.take(), pool.take()
    assert sorted((a, b, c)) == [0, 1, 2]
    assert (pool.num_free, pool.num_idle, pool.num_held) == (0, 0, 3)
    with pytest.raises(IndexError):
        pool.take()
    pool.hold(a)
    pool.drop(a, keep=True)
    assert pool.num_held == 3
    pool.drop(a, keep=True)
    pool.drop(b, keep=True)
    pool.drop(c, keep=False)
    assert (pool.num_free, pool.num_idle, pool.num_held) == (1, 2, 0)
    pool.check()
    pool.hold(a)
    assert not pool.is_idle(a)
    pool.drop(a, keep=True)
    assert pool.idle_blocks() == (b, a)
    assert pool.reclaim() == b
    pool.check()


def test_dropping_a_block_nobody_holds_is_refused():
    pool = BlockPool(2)
    block = pool.take()
    pool.drop(block, keep=False)
    with pytest.raises(ValueError, match=f"Block {block} is dropped but nobody holds it"):
        pool.drop(block, keep=False)


def test_holding_a_free_block_is_refused():
    with pytest.raises(KeyError):
        BlockPool(2).hold(0)


def test_a_pool_needs_a_block():
    with pytest.raises(ValueError, match="at least 1 block"):
        BlockPool(0)


def test_check_sees_a_wrong_count():
    pool = BlockPool(2)
    pool.counts[0] = 1
    with pytest.raises(AssertionError, match="Block 0 has 1 holders"):
        pool.check()


def test_check_sees_a_block_in_two_states():
    pool = BlockPool(2)
    block = pool.take()
    pool.drop(block, keep=True)
    pool._free.append(block)
    with pytest.raises(AssertionError, match="both free and idle"):
        pool.check()
