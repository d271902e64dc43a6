import pytest

from tenfold.kv.hashing import DIGEST_BYTES, HashChain, root_digest


def chain_of(tokens, salt="", block_size=4):
    chain = HashChain(salt, block_size)
    chain.extend(tokens)
    return chain


def test_only_full_blocks_are_hashed():
    chain = chain_of(range(11))
    assert len(chain.digests) == 2
    assert chain.num_tokens == 8
    assert all(len(digest) == DIGEST_BYTES for digest in chain.digests)


def test_growing_in_pieces_gives_the_same_digests():
    tokens = tuple(range(100, 140))
    whole = chain_of(tokens)
    grown = HashChain("", 4)
    for end in (3, 4, 9, 10, 31, 40):
        grown.extend(tokens[grown.num_tokens : end])
    assert grown.digests == whole.digests


def test_a_digest_covers_every_token_before_it():
    tokens = list(range(12))
    base = chain_of(tokens).digests
    for position in range(12):
        changed = list(tokens)
        changed[position] += 1000
        digests = chain_of(changed).digests
        first = position // 4
        assert digests[:first] == base[:first]
        assert all(a != b for a, b in zip(digests[first:], base[first:], strict=True))


def test_salts_share_nothing():
    salts = ["", "a", "ab", "b", "\0", "\ud800", "a\0"]
    assert len({root_digest(salt) for salt in salts}) == len(salts)
    digests = [digest for salt in salts for digest in chain_of(range(8), salt).digests]
    assert len(set(digests)) == len(digests)


def test_block_sizes_share_nothing():
    assert not set(chain_of(range(16), block_size=4).digests) & set(chain_of(range(16), block_size=8).digests)


def test_digests_are_the_same_in_every_process():
    # Fixed bytes: a seed, or a change of the format, would break caches shared between processes.
    assert chain_of(range(4), "tenant").digests[0].hex() == (
        "b918d8493349fc5c9a3a8d7678cd7caf94d9cf6f09f796eb237940d78781d312"
    )


def test_largest_token_id_is_accepted_and_a_larger_one_is_not():
    assert chain_of([2**32 - 1] * 4).digests
    with pytest.raises(Exception, match="format requires"):
        chain_of([2**32] * 4)
