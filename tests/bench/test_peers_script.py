"""scripts/peers with stand-ins for cmake and pip, and the model that it tries what it built with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gguf
import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
# Configures as it is told, and "builds" programs of which llama-bench dies when AMX is on and AMX is said to be broken.
CMAKE = """#!/bin/sh
echo "$@" >>"$0.calls"
if [ "$1" = -S ]; then
  mkdir -p "$4/bin"
  case "$*" in *PEERS_AMX=ON*) cp "$0.amx" "$4/body" ;; *) echo 'exit 0' >"$4/body" ;; esac
else
  for name in llama-bench llama-batched-bench llama-server llama-quantize llama-perplexity; do
    { echo '#!/bin/sh'; cat "$2/body"; } >"$2/bin/$name"
    chmod +x "$2/bin/$name"
  done
fi
"""
PIP = """#!/bin/sh
case "$*" in *"index versions"*) cat "$0.versions" ;; *venv*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
*"pip"*" install "*) echo "$@" >>"$0.installs" ;; *urlopen*) exit 1 ;; esac
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the scripts where llama.cpp's sources are unpacked, with a cmake that is found first."""
    (tmp_path / "scripts").mkdir()
    for name in ("peers", "tiny-gguf"):
        shutil.copy(SCRIPTS / name, tmp_path / "scripts" / name)
    (version,) = re.findall(r"^version=(.*)$", (SCRIPTS / "peers").read_text(), re.MULTILINE)
    for name in ("llama.cpp", "llama.cpp-avx2"):
        (tmp_path / "build" / "peers" / name).mkdir(parents=True)
        (tmp_path / "build" / "peers" / name / ".unpacked").write_text(version)
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "cmake", CMAKE)
    return tmp_path


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def peers(tree: Path, name: str, python: str = sys.executable) -> str:
    """Run the script; what it said."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TENFOLD_")}
    environment = {**kept, "PATH": f"{tree / 'bin'}:{os.environ['PATH']}", "PYTHON": python}
    command = ["bash", str(tree / "scripts" / "peers"), name]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr


@pytest.mark.parametrize(("amx", "configured"), [("exit 0", 1), ("kill -ILL $$", 2)])
def test_llama_cpp_is_built_without_amx_only_where_it_dies_with_it(
    tree: Path, amx: str, configured: int
) -> None:
    (tree / "bin" / "cmake.amx").write_text(amx)
    said = peers(tree, "llama.cpp")
    assert ("built again without AMX" in said) == (configured == 2)
    calls = (tree / "bin" / "cmake.calls").read_text()
    assert re.findall("PEERS_AMX=(ON|OFF)", calls) == ["ON", "OFF"][:configured]
    assert "is built" in peers(tree, "llama.cpp")
    assert (tree / "bin" / "cmake.calls").read_text() == calls  # nothing is made twice


def test_llama_cpp_held_to_avx2(tree: Path) -> None:
    assert "llama.cpp-avx2/build/bin measures with it" in peers(tree, "llama.cpp-avx2")
    calls = (tree / "bin" / "cmake.calls").read_text()
    assert "GGML_NATIVE=OFF" in calls and "GGML_AVX2=ON" in calls and "GGML_AVX512=OFF" in calls
    assert calls.strip().endswith("--target llama-bench llama-batched-bench llama-quantize")


@pytest.mark.parametrize(
    ("versions", "torch"),
    [
        ("torch (2.15.0)\nAvailable versions: 2.15.0, 2.13.0+cpu, 2.13.0, 2.12.0+cpu", "torch==2.13.0+cpu"),
        ("torch (2.15.0)\nAvailable versions: 2.15.0, 2.14.1", "torch"),
    ],
)
def test_a_torch_for_cpus_is_preferred(tree: Path, versions: str, torch: str) -> None:
    program(tree / "bin" / "python", PIP)
    (tree / "bin" / "python.versions").write_text(versions)
    peers(tree, "transformers", str(tree / "bin" / "python"))
    installs = (tree / "build" / "peers" / "transformers" / "bin" / "python.installs").read_text()
    assert f" install {torch} transformers" in installs


def test_the_tiny_model_is_a_gguf_file(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    subprocess.run([sys.executable, str(SCRIPTS / "tiny-gguf"), str(file)], check=True)
    tensors = gguf.GGUFReader(file).tensors
    assert {tensor.tensor_type.name for tensor in tensors} == {"Q4_0", "F32"}
    last = max(tensors, key=lambda tensor: tensor.data_offset)
    assert last.data_offset + last.n_bytes == file.stat().st_size
