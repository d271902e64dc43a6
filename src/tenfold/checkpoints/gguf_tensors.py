"""From a GGUF header's tensor descriptions to views of the mapped file."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from tenfold.checkpoints.checkpoint import Tensor, TensorType
from tenfold.checkpoints.gguf_metadata import GgufHeader, TensorInfo
from tenfold.checkpoints.mapped_file import MappedFile
from tenfold.checkpoints.storage import BLOCKS, byte_size, unsupported
from tenfold.core.errors import CheckpointError

_TYPES = {kind.value: kind for kind in TensorType}


def map_tensors(file: MappedFile, header: GgufHeader) -> dict[str, Tensor]:
    """Tensors by name, in the file's order; types, shapes and ranges checked.

    Raises:
        CheckpointError: an unsupported type, an impossible shape, or a range that is misaligned, outside the
            file or over another tensor's.
    """
    tensors = {info.name: _map_tensor(file, header, info) for info in header.tensors}
    _check_overlap(tensors)
    return tensors


def _map_tensor(file: MappedFile, header: GgufHeader, info: TensorInfo) -> Tensor:
    def error(problem: str) -> CheckpointError:
        return CheckpointError(file.path, problem, tensor=info.name, offset=info.position)

    kind = _TYPES.get(info.type)
    if kind is None:
        raise error(unsupported(info.type))
    if 0 in info.dimensions:
        raise error(f"a dimension of {info.dimensions} is 0")
    elements, _ = BLOCKS[kind]
    if info.dimensions[0] % elements:
        raise error(
            f"its rows have {info.dimensions[0]} elements, no multiple of the {elements} of a "
            f"{kind.name} block"
        )
    if info.offset % header.alignment:
        raise error(f"its offset {info.offset} is no multiple of the alignment {header.alignment}")
    shape = tuple(reversed(info.dimensions))
    size = byte_size(kind, shape)
    start = header.data_start + info.offset
    if start + size > file.size:
        raise error(
            f"its {size} bytes at {start} end past the file's {file.size}; the file is truncated or corrupted"
        )
    stop = start + size
    forget = partial(file.forget, start, stop)
    return Tensor(info.name, kind, shape, file.bytes[start:stop], str(file.path), start, forget)


def _check_overlap(tensors: dict[str, Tensor]) -> None:
    ordered = sorted(tensors.values(), key=lambda tensor: tensor.offset)
    for before, after in pairwise(ordered):
        if before.offset + before.data.size > after.offset:
            raise CheckpointError(
                after.file,
                f"its bytes overlap those of tensor {before.name!r}",
                tensor=after.name,
                offset=after.offset,
            )
