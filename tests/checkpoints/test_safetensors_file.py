"""safetensors headers: right ones read exactly; wrong ones are refused with name and place."""

import json
import pickle
import struct

import numpy as np
import pytest
from safetensors.numpy import save_file

from tenfold.checkpoints.safetensors_file import SafetensorsFile
from tenfold.core.errors import CheckpointError


def write(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(begin, end, shape, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_reads_what_the_package_writes(tmp_path):
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.ones(4, np.float16),
        "c": np.zeros((), np.int8),
    }
    save_file(arrays, tmp_path / "x.safetensors", metadata={"format": "pt"})
    opened = SafetensorsFile(tmp_path / "x.safetensors")
    assert set(opened.entries) == set(arrays)
    for name, array in arrays.items():
        found = opened.entries[name]
        begin, end = (opened.data_start + offset for offset in found.data_offsets)
        assert found.shape == array.shape
        assert opened.file.bytes[begin:end].tobytes() == array.tobytes()


def test_a_file_without_tensors(tmp_path):
    assert SafetensorsFile(write(tmp_path / "x", {})).entries == {}


A = entry(0, 8, [2])
WRONG = {
    "hole": ({"a": A, "b": entry(12, 16, [1])}, 16, "leave a hole after", "b"),
    "overlap": ({"a": A, "b": entry(4, 8, [1])}, 8, "overlap", "b"),
    "late start": ({"a": entry(4, 8, [1])}, 8, "does not start", "a"),
    "bytes left": ({"a": A}, 9, "belong to none", None),
    "past the end": ({"a": A}, 7, "not within", "a"),
    "backwards": ({"a": entry(8, 0, [2])}, 8, "not within", "a"),
    "negative": ({"a": entry(-8, 0, [2])}, 8, "not within", "a"),
    "huge": ({"a": entry(0, 2**62, [2])}, 8, "not within", "a"),
    "size": ({"a": entry(0, 8, [3])}, 8, "takes 12 bytes, but its range has 8", "a"),
    "overflow": ({"a": entry(0, 8, [2**62, 2**62])}, 8, "more elements than", "a"),
    "negative dimension": ({"a": entry(0, 8, [-2])}, 8, "negative", "a"),
    "dtype": ({"a": entry(0, 8, [2], "F31")}, 8, "'F31' is unknown", "a"),
    "rank": ({"a": entry(0, 8, [1] * 9)}, 8, "9 dimensions", "a"),
    "no dtype": ({"a": {"shape": [2], "data_offsets": [0, 8]}}, 8, "malformed", "a"),
    "float shape": ({"a": entry(0, 8, [2.5])}, 8, "malformed", "a"),
    "three offsets": ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4, 8]}}, 8, "malformed", "a"),
    "list": ([], 0, "no valid JSON object", None),
    "not JSON": (b"{", 0, "no valid JSON object", None),
    "not UTF-8": (b'{"\xff": 1}', 0, "no valid JSON object|malformed", None),
    "deep": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 0, "malformed|no valid JSON", None),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_headers(tmp_path, name):
    header, data, problem, tensor = WRONG[name]
    with pytest.raises(CheckpointError, match=problem) as raised:
        SafetensorsFile(write(tmp_path / "x.safetensors", header, bytes(data)))
    assert "x.safetensors" in str(raised.value)
    if tensor:
        assert raised.value.tensor == tensor
    assert raised.value.offset is not None


def test_duplicate_names_leave_a_hole(tmp_path):
    header = f'{{"a":{json.dumps(A)},"a":{json.dumps(entry(8, 16, [2]))}}}'.encode()
    with pytest.raises(CheckpointError, match="does not start"):
        SafetensorsFile(write(tmp_path / "x", header, bytes(16)))


@pytest.mark.parametrize("length", [0, 1, 3, 10**6, 2**40, 2**64 - 1])
def test_wrong_header_lengths(tmp_path, length):
    with pytest.raises(CheckpointError):
        SafetensorsFile(write(tmp_path / "x", {"a": A}, bytes(8), length))


def test_short_files(tmp_path):
    content = write(tmp_path / "x", {"a": A}, bytes(8)).read_bytes()
    for size in range(len(content)):
        (tmp_path / "x").write_bytes(content[:size])
        with pytest.raises(CheckpointError):
            SafetensorsFile(tmp_path / "x")


def test_millions_of_names_are_not_parsed(tmp_path):
    header = b"{" + b",".join(b'"%d":0' % index for index in range(800_001)) + b"}"
    with pytest.raises(CheckpointError, match="more than 800000 fields"):
        SafetensorsFile(write(tmp_path / "x", header))


@pytest.mark.parametrize("length", [128, 384])
def test_a_length_that_looks_like_a_pickle(tmp_path, length):
    header = json.dumps({"a": A}).encode().ljust(length)
    assert set(SafetensorsFile(write(tmp_path / "x", header, bytes(8))).entries) == {"a"}


def test_pickles_are_named(tmp_path):
    (tmp_path / "x").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(CheckpointError, match="pickle, which can run code"):
        SafetensorsFile(tmp_path / "x")
