import pytest

from tenfold.scheduler.in_flight import BlocksInFlight


def test_the_first_claim_holds_until_done_or_dropped():
    blocks = BlocksInFlight()
    blocks.claim(1, [b"a", b"b"])
    blocks.claim(2, [b"b", b"c"])
    blocks.check()
    assert [blocks.owner(digest) for digest in (b"a", b"b", b"c", b"d")] == [1, 1, 2, None]
    assert blocks.claims(1) == {b"a", b"b"} and blocks.claims(2) == {b"c"}
    blocks.done(2, [b"b"])
    assert blocks.owner(b"b") == 1
    blocks.done(1, [b"a"])
    blocks.check()
    assert blocks.owner(b"a") is None and len(blocks) == 2
    blocks.drop(1)
    blocks.drop(1)
    blocks.done(1, [b"b"])
    assert blocks.owner(b"b") is None
    blocks.done(2, [b"c"])
    blocks.check()
    assert len(blocks) == 0 and not blocks.claims(2)


def test_check_sees_a_lost_claim():
    blocks = BlocksInFlight()
    blocks.claim(1, [b"a"])
    del blocks._owners[b"a"]
    with pytest.raises(AssertionError, match="do not agree"):
        blocks.check()
