"""What a MODEL may be, and what is said when it is nothing."""

import os
import subprocess
import sys

import pytest

from tenfold.checkpoints import hub
from tenfold.checkpoints.cache import model_path
from tenfold.checkpoints.catalog import CATALOG, DEFAULT_MODEL
from tenfold.checkpoints.resolve import resolve
from tenfold.core.errors import ModelNotFoundError
from tests.checkpoints.conftest import CONTENT


def test_a_catalog_model_is_pulled_once(store):
    store.put_on_hub()
    seen = []
    assert resolve("tiny", progress=seen.append).read_bytes() == CONTENT
    assert seen
    assert resolve("tiny") == model_path(store.entry)
    assert len(store.requests) == 1


def test_the_default(store, monkeypatch):
    store.put_on_hub()
    monkeypatch.setitem(CATALOG, DEFAULT_MODEL, store.entry)
    monkeypatch.setattr("tenfold.checkpoints.resolve.DEFAULT_MODEL", "tiny")
    assert resolve(None) == model_path(store.entry)


def test_paths(tmp_path, monkeypatch):
    file = tmp_path / "a b.gguf"
    file.write_bytes(b"x")
    assert resolve(str(file)) == file
    assert resolve(str(tmp_path)) == file
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/a b.gguf") == file
    (tmp_path / "config.json").write_text("{}")
    assert resolve(str(tmp_path)) == tmp_path


def test_folders_without_one_model(tmp_path):
    with pytest.raises(ModelNotFoundError, match=r"neither a config.json nor a GGUF file"):
        resolve(str(tmp_path))
    for name in "ab":
        (tmp_path / f"{name}.gguf").write_bytes(b"")
    with pytest.raises(ModelNotFoundError, match=r"2 GGUF files; name one of them: a.gguf, b.gguf"):
        resolve(str(tmp_path))


def test_near_names_are_offered(tmp_path):
    with pytest.raises(ModelNotFoundError, match=r"no model 'smolm2'\. Did you mean 'smollm2'"):
        resolve("smolm2")
    (tmp_path / "model-q4.gguf").write_bytes(b"")
    with pytest.raises(ModelNotFoundError, match=r"Did you mean '.*model-q4\.gguf'"):
        resolve(str(tmp_path / "model-q5.gguf"))


@pytest.mark.parametrize(
    "name", ["", "zzz", "a\0b", "x" * 5000, "a/b/c", "~nobody-of-this-name/x.gguf", "org/x.gguf"]
)
def test_unknown_names_list_the_choices(name):
    with pytest.raises(ModelNotFoundError, match=r"Give a catalog name \(smollm2"):
        resolve(name)


@pytest.mark.parametrize(
    ("model", "repo", "wanted"),
    [
        ("org/name", "org/name", None),
        ("org/name:Q4_K_M", "org/name", "Q4_K_M"),
        ("org/na.me-1:a/b.gguf", "org/na.me-1", "a/b.gguf"),
    ],
)
def test_hub_ids(monkeypatch, tmp_path, model, repo, wanted):
    asked = []
    monkeypatch.setattr(hub, "fetch_from_hub", lambda *args: asked.append(args) or tmp_path)
    assert resolve(model) == tmp_path
    assert asked == [(repo, wanted)]


def test_a_start_imports_little(store):
    """With the model in place, neither network, nor subprocess, nor other readers' packages are loaded."""
    store.put_on_hub()
    resolve("tiny")
    heavy = [
        "urllib.request",
        "subprocess",
        "zipfile",
        "hashlib",
        "gguf",
        "safetensors",
        "huggingface_hub",
        "torch",
    ]
    code = (
        "import sys, tenfold.checkpoints.resolve, tenfold.checkpoints.open\n"
        "import tenfold.checkpoints.dequantize, numpy, msgspec\n"
        f"print([name for name in {heavy} if name in sys.modules])\n"
    )
    bare = "import sys, numpy, msgspec\n" + code.splitlines()[-1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    loaded, base = (
        subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True, env=environment
        ).stdout
        for text in (code, bare)
    )
    assert loaded == base


def test_what_is_no_file_is_called_so(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    for name in (tmp_path / "pipe.gguf", "/dev/zero"):
        with pytest.raises(ModelNotFoundError, match="neither an ordinary file nor a folder"):
            resolve(str(name))
