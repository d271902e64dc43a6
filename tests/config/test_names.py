"""Names of settings: every spelling finds its field, every wrong one the nearest."""

from __future__ import annotations

from tenfold.config.names import FIELDS, field_of, flag_of, suggestion, unknown_variables


def test_every_field_is_found_by_its_flag():
    for field in FIELDS:
        assert field_of(field) == field
        assert field_of(flag_of(field).removeprefix("--")) == field
    assert flag_of("api_keys") == "--api-key"
    assert field_of("nothing") is None


def test_the_nearest_name_is_suggested():
    assert suggestion("prot", FIELDS) == "; did you mean port?"
    assert suggestion("zzzzzz", FIELDS) == "."


def test_stray_variables():
    environment = {
        "TENFOLD_PROT": "1",
        "TENFOLD_QQQQ": "1",
        "TENFOLD_PORT": "1",
        "TENFOLD_API_KEY": "k",
        "TENFOLD_HOME": "/x",
        "TENFOLD_CONFIG": "/x",
        "TENFOLD_TEST_MODELS": "/x",
        "PATH": "/bin",
    }
    assert unknown_variables(environment) == [
        "The variable TENFOLD_PROT in the environment is no setting; did you mean TENFOLD_PORT?",
        "The variable TENFOLD_QQQQ in the environment is no setting.",
    ]
