"""Hub ids, with a stand-in for huggingface_hub."""

import sys
import types

import pytest

from tenfold.checkpoints.hub import choose_gguf, fetch_from_hub
from tenfold.core.errors import ModelNotFoundError

QUANTS = ["README.md", "m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-IQ4_K_M.gguf", "sub/m.F16.gguf"]


@pytest.fixture
def package(monkeypatch, tmp_path):
    """A package with one repository; `files` is what it has, `online` whether it answers."""
    package = types.ModuleType("huggingface_hub")
    package.files, package.online, package.calls = [], True, []

    class HfApi:
        def list_repo_files(self, repo):
            if not package.online:
                raise OSError("no route to host\nand more lines")
            return package.files

    def snapshot_download(repo, *, allow_patterns=None, local_files_only):
        package.calls.append(("folder", repo, local_files_only))
        if local_files_only and not any(tmp_path.iterdir()):
            raise OSError("not in the cache")
        return str(tmp_path)

    def hf_hub_download(repo, file, *, local_files_only):
        package.calls.append((file, repo, local_files_only))
        return str(tmp_path / file)

    package.HfApi, package.snapshot_download, package.hf_hub_download = (
        HfApi,
        snapshot_download,
        hf_hub_download,
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", package)
    return package


def test_a_folder_repository(package, tmp_path):
    package.files = ["config.json", "model.safetensors", "model.gguf"]
    assert fetch_from_hub("org/m", None) == tmp_path
    assert package.calls == [("folder", "org/m", False)]


def test_a_gguf_repository(package, tmp_path):
    package.files = QUANTS
    assert fetch_from_hub("org/m", None) == tmp_path / "m-Q4_K_M.gguf"
    assert fetch_from_hub("org/m", "q8_0") == tmp_path / "m-Q8_0.gguf"
    assert package.calls[-1] == ("m-Q8_0.gguf", "org/m", False)


def test_offline_uses_the_cache(package, tmp_path):
    package.online = False
    with pytest.raises(ModelNotFoundError, match=r"the hub cannot be reached: no route to host$"):
        fetch_from_hub("org/m", None)
    (tmp_path / "m-Q8_0.gguf").write_bytes(b"")
    assert fetch_from_hub("org/m", None) == tmp_path / "m-Q8_0.gguf"
    assert package.calls[-1] == ("m-Q8_0.gguf", "org/m", True)


def test_a_failed_download(package):
    package.files = ["m.gguf"]

    def fail(*args, **kwargs):
        raise RuntimeError("disk quota\nmore")

    package.hf_hub_download = fail
    with pytest.raises(ModelNotFoundError, match=r"could not be downloaded from the model hub: disk quota$"):
        fetch_from_hub("org/m", None)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModelNotFoundError, match=r"pip install huggingface_hub"):
        fetch_from_hub("org/m", None)


def test_choosing_a_file():
    assert choose_gguf("r", QUANTS, "m-Q8_0.gguf") == "m-Q8_0.gguf"
    assert choose_gguf("r", QUANTS, "Q4_K_M") == "m-Q4_K_M.gguf"
    assert choose_gguf("r", QUANTS, "f16") == "sub/m.F16.gguf"
    assert choose_gguf("r", ["odd.gguf"], None) == "odd.gguf"
    with pytest.raises(ModelNotFoundError, match="no file that fits 'Q2_K'; its GGUF files: m-IQ4"):
        choose_gguf("r", QUANTS, "Q2_K")
    with pytest.raises(ModelNotFoundError, match="several files that fit 'Q8_0'"):
        choose_gguf("r", ["a-Q8_0.gguf", "b-Q8_0.gguf"], "Q8_0")
    with pytest.raises(ModelNotFoundError, match="neither a GGUF file nor"):
        choose_gguf("r", ["README.md"], None)
