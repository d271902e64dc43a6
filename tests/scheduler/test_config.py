import pytest

from tenfold.scheduler.config import SchedulerConfig


@pytest.mark.parametrize(
    "limits, words",
    [
        ({"max_num_seqs": 0}, "max_num_seqs is 0"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens is 0"),
        ({"max_waiting": 0}, "max_waiting is 0"),
        ({"max_chunk_tokens": 0}, "max_chunk_tokens is 0"),
        ({"max_prefill_beside_decodes": 0}, "max_prefill_beside_decodes is 0"),
        ({"max_model_len": 1}, "max_model_len is 1"),
        ({"max_num_batched_tokens": 4, "max_num_seqs": 5}, "below max_num_seqs, 5"),
        ({"enable_chunked_prefill": False, "max_model_len": 513}, "below max_model_len, 513"),
    ],
)
def test_contradictions_are_refused(limits, words):
    with pytest.raises(ValueError, match=words):
        SchedulerConfig(**limits)


def test_defaults_and_bounds_are_taken():
    SchedulerConfig()
    SchedulerConfig(
        max_num_batched_tokens=4, max_num_seqs=4, max_chunk_tokens=1, max_model_len=2, max_waiting=1
    )
    SchedulerConfig(enable_chunked_prefill=False, max_model_len=512, max_num_batched_tokens=512)
