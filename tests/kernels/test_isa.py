from __future__ import annotations

import pytest

from tenfold import _native
from tenfold.core.errors import TenfoldError
from tenfold.kernels.isa import AMX_SEQUENCES, choose_isa


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENFOLD_ISA", raising=False)
    monkeypatch.setattr(_native, "supported_isas", lambda: ["generic", "avx2", "avx512", "amx"])


def test_the_best_is_taken() -> None:
    assert choose_isa() == ("amx", "the best this CPU supports")


def test_amx_is_not_taken_for_few_sequences() -> None:
    assert choose_isa(None, AMX_SEQUENCES)[0] == "amx"
    isa, why = choose_isa(None, AMX_SEQUENCES - 1)
    assert isa == "avx512"
    assert f"max_num_seqs is {AMX_SEQUENCES - 1}" in why


def test_few_sequences_change_nothing_without_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "supported_isas", lambda: ["generic", "avx2"])
    assert choose_isa(None, 1) == ("avx2", "the best this CPU supports")


def test_what_is_asked_for_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_ISA", "avx2")
    assert choose_isa(None, 1) == ("avx2", "forced by TENFOLD_ISA")
    assert choose_isa("amx", 1) == ("amx", "asked for")


def test_what_the_cpu_lacks_is_refused() -> None:
    with pytest.raises(TenfoldError, match="asked for"):
        choose_isa("sse")
