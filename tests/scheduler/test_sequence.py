from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.sampling_params import SamplingParams
from tenfold.kv.hashing import HashChain
from tenfold.scheduler.sequence import Sequence

TOKENS = st.lists(st.integers(0, 99), max_size=12)


def sequence(prompt, output):
    sampling = SamplingParams()
    return Sequence(seq_id=1, request_id="r", prompt_ids=prompt, sampling=sampling, output_ids=output)


@given(TOKENS, TOKENS, st.integers(0, 24), st.integers(0, 24))
def test_tokens_are_prompt_then_output(prompt, output, start, stop):
    seq = sequence(prompt, output)
    every = (*prompt, *output)
    start, stop = sorted((min(start, len(every)), min(stop, len(every))))
    assert seq.tokens(start, stop) == every[start:stop]
    assert seq.num_tokens == len(every)


@given(TOKENS, TOKENS, st.lists(st.integers(0, 24)))
def test_the_chain_grows_over_full_blocks_only(prompt, output, stops):
    seq = sequence(prompt, output)
    seq.chain = HashChain("s", 3)
    for stop in sorted(min(stop, seq.num_tokens) for stop in stops):
        seq.hash_to(stop)
        whole = HashChain("s", 3)
        whole.extend(seq.tokens(0, stop))
        assert seq.chain.digests == whole.digests


def test_without_a_chain_nothing_is_hashed():
    seq = sequence((1, 2, 3), [])
    seq.hash_to(3)
    assert seq.chain is None
