import pytest

from tenfold.kv.prefix_index import PrefixIndex


def test_match_stops_at_the_first_gap_and_at_the_limit():
    index = PrefixIndex()
    index.insert(b"a", 7, None)
    index.insert(b"b", 3, 7)
    index.insert(b"d", 5, 3)
    assert index.match([b"a", b"b", b"c", b"d"], 4) == (7, 3)
    assert index.match([b"a", b"b"], 1) == (7,)
    assert index.match([b"x", b"a"], 2) == ()
    assert index.match([], 2) == ()
    assert 7 in index and 8 not in index and len(index) == 3
    index.check()


def test_a_digest_and_a_block_are_indexed_once():
    index = PrefixIndex()
    index.insert(b"a", 1, None)
    for digest, block in ((b"a", 2), (b"b", 1)):
        with pytest.raises(ValueError, match="indexed already"):
            index.insert(digest, block, None)


def test_a_block_needs_its_parent():
    index = PrefixIndex()
    with pytest.raises(ValueError, match="its parent, block 4, is not"):
        index.insert(b"a", 1, 4)


def test_removal_and_check():
    index = PrefixIndex()
    index.insert(b"a", 1, None)
    index.insert(b"b", 2, 1)
    assert index.parent(2) == 1 and index.parent(1) is None
    index.remove(1)
    assert index.get(b"a") is None
    with pytest.raises(AssertionError, match="its parent, block 1, is not"):
        index.check()
    index.remove(2)
    index.check()
    with pytest.raises(KeyError):
        index.remove(2)
