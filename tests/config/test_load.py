"""Settings: file < environment < flag, each value knows where it came from, and errors are sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenfold.config.engine import EngineSettings
from tenfold.config.load import MAX_FILE_BYTES, Settings, Source, every_value, load_settings
from tenfold.config.server import ServerSettings
from tenfold.core.errors import TenfoldError


def write(tmp_path, text):
    path = tmp_path / "tenfold.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_given_is_the_defaults():
    assert load_settings({"port": None}, environment={}) == (Settings(), [])


def test_later_layers_win_and_say_so(tmp_path):
    file = write(
        tmp_path, "[engine]\nthreads = 1\nmax_num_seqs = 2\nblock_size = 32\n[server]\nport = 1000\n"
    )
    environment = {"TENFOLD_THREADS": "3", "TENFOLD_MAX_NUM_SEQS": "4"}
    settings, sources = load_settings({"threads": 5}, config_file=file, environment=environment)
    assert settings.engine == EngineSettings(threads=5, max_num_seqs=4, block_size=32)
    assert settings.server == ServerSettings(port=1000)
    assert {source.name: source.source for source in sources} == {
        "threads": "flag",
        "max_num_seqs": "environment",
        "block_size": "file",
        "port": "file",
    }
    assert Source("threads", 5, "flag") in sources


def test_environment_texts_become_their_types():
    settings, _ = load_settings(
        {},
        environment={
            "TENFOLD_ENABLE_PREFIX_CACHING": "false",
            "TENFOLD_SHUTDOWN_TIMEOUT_S": "2.5",
            "TENFOLD_API_KEYS": "one,two",
            "TENFOLD_CORS_ORIGINS": "*",
            "TENFOLD_SERVED_MODEL_NAMES": "small,smaller",
            "TENFOLD_MAX_WAITING": "7",
        },
    )
    assert settings.engine.enable_prefix_caching is False
    assert settings.server.shutdown_timeout_s == 2.5
    assert settings.server.api_keys == ("one", "two")
    assert settings.server.cors_origins == ("*",)
    assert settings.server.served_model_names == ("small", "smaller")
    assert settings.engine.max_waiting == 7


def test_an_empty_variable_is_not_given():
    assert load_settings({}, environment={"TENFOLD_PORT": ""})[0].server.port == 8000


def test_the_process_environment_is_read_when_none_is_passed(monkeypatch):
    monkeypatch.setenv("TENFOLD_PORT", "8123")
    assert load_settings({})[0].server.port == 8123


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[engine\n", "is not TOML"),
        ("[motor]\nthreads = 1\n", "has [motor]; it may have [engine] and [server]"),
        ("[engine]\nthread = 1\n", "sets 'thread' in [engine], which is no setting; did you mean threads?"),
        ("prot = 1\n", "sets 'prot', which is no setting; did you mean port?"),
        ("zzzz = 1\n", "sets 'zzzz', which is no setting."),
        ("[engine]\nport = 1\n", "sets 'port' in [engine]; it belongs in [server]."),
        ("[server]\nmodel = 'm'\n", "sets 'model' in [server]; it belongs above all tables."),
        ("port = 1\n[server]\nport = 2\n", "sets 'port' in [server], and port a second time; leave one."),
        ("max-waiting = 1\nmax_waiting = 2\n", "a second time"),
        ("model = 1\n", "model in the settings file has the wrong value 1; give a text."),
        (
            "[server]\nport = 'http'\n",
            "port in the settings file has the wrong value 'http'; give a whole number.",
        ),
        (
            "[engine]\nthreads = [1]\n",
            "threads in the settings file has the wrong value [1]; give a whole number.",
        ),
        (
            "[server]\napi_keys = 'secret'\n",
            "api_keys in the settings file has the wrong value; give a list.",
        ),
        (
            "[server]\ncors_origins = [1]\n",
            "cors_origins in the settings file has the wrong value [1]; give a text.",
        ),
    ],
)
def test_a_wrong_file_gets_a_sentence(tmp_path, text, sentence):
    with pytest.raises(TenfoldError) as caught:
        load_settings({}, config_file=write(tmp_path, text), environment={})
    assert sentence in str(caught.value)
    assert str(caught.value)[-1] in ".?"


def test_the_file_may_be_written_like_flags(tmp_path):
    file = write(
        tmp_path,
        'model = "small"\napi-key = "one"\nserved-model-name = ["a", "b"]\nmax-num-seqs = 3\n[server]\nport = 7\n',
    )
    settings, sources = load_settings({}, config_file=file, environment={})
    assert settings.model == "small"
    assert settings.server == ServerSettings(api_keys=("one",), served_model_names=("a", "b"), port=7)
    assert settings.engine == EngineSettings(max_num_seqs=3)
    assert {source.source for source in sources} == {"file"}


def test_variables_may_be_named_like_repeated_flags():
    settings, _ = load_settings({}, environment={"TENFOLD_API_KEY": "one", "TENFOLD_MODEL": "small"})
    assert settings.server.api_keys == ("one",)
    assert settings.model == "small"


def test_every_value_has_a_source_and_hides_secrets():
    flags = {"api_keys": ("secret",), "max_waiting": 3}
    found = every_value(*load_settings(flags, environment={"TENFOLD_CORS_ORIGINS": "a,b"}))
    by_name = {each.name: each for each in found}
    fields = (*EngineSettings.__struct_fields__, *ServerSettings.__struct_fields__)
    assert list(by_name) == ["model", *fields]
    assert (by_name["api_keys"].shown, by_name["api_keys"].source) == ("...", "flag")
    assert (by_name["cors_origins"].shown, by_name["cors_origins"].source) == ("a, b", "environment")
    assert (by_name["port"].value, by_name["port"].source) == (8000, "default")
    assert by_name["threads"].shown == "not set"
    assert by_name["enable_prefix_caching"].shown == "true"


def test_an_absent_file_and_one_that_is_not_text_get_a_sentence(tmp_path):
    with pytest.raises(TenfoldError, match=r"absent.toml cannot be read: No such file"):
        load_settings({}, config_file=tmp_path / "absent.toml", environment={})
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(TenfoldError, match="is not TOML"):
        load_settings({}, config_file=tmp_path / "bytes.toml", environment={})


def test_a_wrong_variable_gets_a_sentence():
    sentence = "TENFOLD_PORT in the environment has the wrong value 'http'; give a whole number."
    with pytest.raises(TenfoldError, match=sentence):
        load_settings({}, environment={"TENFOLD_PORT": "http"})
    with pytest.raises(TenfoldError, match=r"TENFOLD_ENABLE_PREFIX_CACHING .* give true or false"):
        load_settings({}, environment={"TENFOLD_ENABLE_PREFIX_CACHING": "perhaps"})


def test_an_endless_file_is_not_read_to_its_end():
    with pytest.raises(TenfoldError, match=f"more than {MAX_FILE_BYTES} bytes"):
        load_settings({}, config_file=Path("/dev/zero"), environment={})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_BODY_BYTES", "-1"),
        ("MAX_PROMPTS", "0"),
        ("BODY_TIMEOUT_S", "nan"),
        ("BODY_TIMEOUT_S", "inf"),
        ("SHUTDOWN_TIMEOUT_S", "-5"),
        ("LOG_FORMAT", "xml"),
        ("LOG_LEVEL", "loud"),
        ("UDS_MODE", "999"),
        ("SSL_KEYFILE", "key.pem"),
    ],
)
def test_values_that_mean_nothing(name, value):
    with pytest.raises(TenfoldError, match=name.lower()):
        load_settings({}, environment={f"TENFOLD_{name}": value})
