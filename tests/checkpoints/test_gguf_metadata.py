"""Every wrong header is refused with a sentence that says what and where; right ones read exactly."""

import struct
import time
import tracemalloc

import numpy as np
import pytest

from tenfold.checkpoints.gguf_metadata import read_header
from tenfold.checkpoints.gguf_tensors import map_tensors
from tenfold.checkpoints.mapped_file import MappedFile
from tenfold.core.errors import CheckpointError
from tests.checkpoints import raw_gguf as raw


def read(tmp_path, content):
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    file = MappedFile(path)
    header = read_header(file)
    return header, map_tensors(file, header)


SCALARS = [
    (raw.U8, 255),
    (raw.I8, -128),
    (raw.U16, 65535),
    (raw.I16, -2),
    (raw.U32, 2**32 - 1),
    (raw.I32, -(2**31)),
    (raw.F32, 0.5),
    (raw.U64, 2**64 - 1),
    (raw.I64, -(2**63)),
    (raw.F64, 1e300),
]


@pytest.mark.parametrize("version", [2, 3])
def test_every_type_of_value(tmp_path, version):
    keys = [(f"scalar.{kind}", raw.value(kind, number)) for kind, number in SCALARS]
    keys += [(f"array.{kind}", raw.value(raw.ARRAY, [number] * 3, kind)) for kind, number in SCALARS]
    keys += [
        ("yes", raw.value(raw.BOOL, 1)),
        ("no", raw.value(raw.BOOL, 0)),
        ("text", raw.value(raw.STRING, "grüße")),
        ("texts", raw.value(raw.ARRAY, ["a", "", "ß"], raw.STRING)),
        ("none", raw.value(raw.ARRAY, [], raw.STRING)),
    ]
    header, tensors = read(tmp_path, raw.gguf(keys, version=version))
    assert header.version == version
    assert tensors == {}
    for kind, number in SCALARS:
        assert header.metadata[f"scalar.{kind}"] == number
        assert header.metadata[f"array.{kind}"].tolist() == [number] * 3
    assert header.metadata["yes"] is True
    assert header.metadata["no"] is False
    assert header.metadata["text"] == "grüße"
    assert header.metadata["texts"] == ["a", "", "ß"]
    assert header.metadata["none"] == []


def test_tensors_are_views_at_their_offsets(tmp_path):
    tensors = [raw.tensor("b", (3, 2), 0, 64), raw.tensor("a", (16,), 0, 0)]
    content = bytearray(raw.gguf([], tensors, data=88))
    content[-24:] = np.arange(6, dtype="<f4").tobytes()
    header, mapped = read(tmp_path, bytes(content))
    assert mapped["b"].shape == (2, 3)
    assert mapped["b"].data.view("<f4").tolist() == [0, 1, 2, 3, 4, 5]
    assert mapped["b"].offset == header.data_start + 64
    assert not mapped["b"].data.flags.writeable


def test_alignment_is_respected(tmp_path):
    keys = [("general.alignment", raw.value(raw.U32, 256))]
    header, _ = read(tmp_path, raw.gguf(keys, [raw.tensor("a", (8,))], data=32, alignment=256))
    assert header.data_start == 256


TEN = raw.tensor("t", (8,))
WRONG = {
    "not gguf": (raw.gguf(magic=b"GGML"), "no GGUF file", 0),
    "big-endian magic": (raw.gguf(magic=b"FUGG"), "big-endian", 0),
    "big-endian version": (raw.gguf(version=3 << 24), "big-endian", 4),
    "version 1": (raw.gguf(version=1), "version 1 is not supported", 4),
    "version 99": (raw.gguf(version=99), "version 99 is not supported", 4),
    "only a magic": (b"GGUF", "needs 4 bytes, but 0 are left", 4),
    "tensor count": (raw.gguf(tensor_count=2**63), "number of tensors is 9223372036854775808", 8),
    "key count": (raw.gguf(key_count=2**64 - 1), "number of metadata keys is 18446744073709551615", 16),
    "limit of keys": (raw.gguf(key_count=70_000, data=10**6), "the limit is 65536", 16),
    "key name": (
        raw.gguf(key_count=1, data=64)[:24] + struct.pack("<Q", 2**40) + bytes(64),
        "metadata key 0",
        24,
    ),
    "key not UTF-8": (raw.gguf([(b"\xff", raw.value(raw.U8, 0))]), "not UTF-8", 32),
    "text not UTF-8": (raw.gguf([("k", raw.value(raw.STRING, b"\xc3("))]), "'k' is not UTF-8", 45),
    "duplicate key": (raw.gguf([("k", raw.value(raw.U8, 0))] * 2), "'k' appears twice", 38),
    "unknown type": (raw.gguf([("k", struct.pack("<II", 77, 0))]), "unknown type 77", 33),
    "bool of 2": (raw.gguf([("k", raw.value(raw.BOOL, 2))]), "neither true nor false", 37),
    "array of arrays": (raw.gguf([("k", struct.pack("<IIQ", 9, 9, 1) + bytes(64))]), "array of arrays", 37),
    "array of unknown": (raw.gguf([("k", struct.pack("<IIQ", 9, 50, 1))]), "unknown type 50", 37),
    "array length": (raw.gguf([("k", struct.pack("<IIQ", 9, 4, 2**62))]), "but at most", 41),
    "strings' length": (raw.gguf([("k", struct.pack("<IIQ", 9, 8, 2**40))]), "but at most", 41),
    "string in array": (
        raw.gguf([("k", struct.pack("<IIQQ", 9, 8, 1, 2**50))], data=64),
        "past the end of the file",
        49,
    ),
    "bad string in array": (
        raw.gguf([("k", raw.value(raw.ARRAY, [b"ok", b"\xff"], raw.STRING))]),
        "not UTF-8",
        59,
    ),
    "alignment 24": (raw.gguf([("general.alignment", raw.value(raw.U32, 24))]), "power of two", 24),
    "alignment 0": (raw.gguf([("general.alignment", raw.value(raw.U32, 0))]), "power of two", 24),
    "alignment 2^40": (raw.gguf([("general.alignment", raw.value(raw.U64, 2**40))]), "power of two", 24),
    "alignment text": (raw.gguf([("general.alignment", raw.value(raw.STRING, "32"))]), "power of two", 24),
    "duplicate tensor": (raw.gguf([], [TEN, TEN], data=64), "two tensors have this name", 57),
    "no dimensions": (raw.gguf([], [raw.tensor("t", ())], data=64), "0 dimensions", 24),
    "9 dimensions": (raw.gguf([], [raw.tensor("t", (1,) * 9)], data=64), "9 dimensions", 24),
    "dimension 0": (raw.gguf([], [raw.tensor("t", (8, 0))], data=64), "is 0", 24),
    "huge": (raw.gguf([], [raw.tensor("t", (2**32, 2**32))], data=64), "end past the file", 24),
    "overflowing": (
        raw.gguf([], [raw.tensor("t", (2**63, 2**63, 2**63, 2))], data=64),
        "end past the file",
        24,
    ),
    "outside": (raw.gguf([], [raw.tensor("t", (8,), 0, 2**63)], data=64), "end past the file", 24),
    "truncated": (raw.gguf([], [TEN], data=31), "end past the file", 24),
    "misaligned": (raw.gguf([], [raw.tensor("t", (8,), 0, 4)], data=64), "no multiple of the alignment", 24),
    "part of a block": (raw.gguf([], [raw.tensor("t", (33,), 8)], data=64), "no multiple of the 32", 24),
    "overlap": (
        raw.gguf([], [raw.tensor("t", (16,)), raw.tensor("u", (8,), 0, 32)], data=64),
        "overlap",
        128,
    ),
    "unknown tensor type": (
        raw.gguf([], [raw.tensor("t", (8,), 99)], data=64),
        "type number 99 is unknown",
        24,
    ),
    "IQ2_XXS": (
        raw.gguf([], [raw.tensor("t", (256,), 16)], data=66),
        "type IQ2_XXS is not supported; supported: F32",
        24,
    ),
    "MXFP4": (raw.gguf([], [raw.tensor("t", (32,), 39)], data=66), "type MXFP4 is not supported", 24),
    "TQ1_0": (raw.gguf([], [raw.tensor("t", (256,), 34)], data=66), "type TQ1_0 is not supported", 24),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_headers(tmp_path, name):
    content, problem, offset = WRONG[name]
    tracemalloc.start()
    with pytest.raises(CheckpointError) as raised:
        read(tmp_path, content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(tmp_path / "m.gguf") in str(raised.value)
    assert problem in str(raised.value)
    assert raised.value.offset == offset
    assert peak < 4_000_000 + 4 * len(content)


def test_every_truncation_is_refused(tmp_path):
    keys = [
        ("a", raw.value(raw.ARRAY, ["x", "yz"], raw.STRING)),
        ("b", raw.value(raw.ARRAY, [1, 2], raw.U16)),
    ]
    content = raw.gguf(keys, [raw.tensor("t", (8,)), raw.tensor("u", (8,), 0, 32)], data=64)
    read(tmp_path, content)
    for size in range(len(content)):
        with pytest.raises(CheckpointError):
            read(tmp_path, content[:size])


def test_a_file_of_nothing_but_empty_strings_ends_soon(tmp_path):
    count = 1_900_000
    content = raw.gguf([("k", struct.pack("<IIQ", 9, 8, count) + bytes(8 * count))])
    started = time.monotonic()
    header, _ = read(tmp_path, content)
    assert len(header.metadata["k"]) == count
    assert (
        time.monotonic() - started < 20
    )  # it takes about one; reading windows in vain takes many times that


def test_too_many_strings_in_all(tmp_path):
    first, second = (struct.pack("<IIQ", 9, 8, count) + bytes(8 * count) for count in (100, 2_000_000))
    with pytest.raises(CheckpointError, match="is 2000000, the limit is 1999900"):
        read(tmp_path, raw.gguf([("a", first), ("b", second)]))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.mkdir(), "not an ordinary file"),
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: None, "no such file"),
    ],
)
def test_no_file_to_map(tmp_path, make, problem):
    make(tmp_path / "x.gguf")
    with pytest.raises(CheckpointError, match=problem):
        MappedFile(tmp_path / "x.gguf")
