from __future__ import annotations

import pytest

from tenfold.core.errors import TenfoldError
from tenfold.lab.random_requests import check_cache_fits


def test_a_cache_that_does_not_fit_is_a_sentence_with_the_mend() -> None:
    check_cache_fits(1, "--batch")
    with pytest.raises(TenfoldError, match=r"would take \d+ MiB, but \d+ MiB are free; lower --batch\.$"):
        check_cache_fits(1 << 60, "--batch")
