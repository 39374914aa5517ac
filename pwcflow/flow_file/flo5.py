""".flo5 of the Spring benchmark: HDF5 with one dataset `flow`, (H, W, 2), compressed by gzip.

Spring stores it at twice the height and width of its images, in pixels of the images all the same:
it is read as it is stored. Source: Mehl et al., "Spring", CVPR 2023, and its loader,
github.com/cv-stuttgart/spring_utils.
"""

import json
import math
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pwcflow.atomic_file import replacing
from pwcflow.errors import FlowFileError
from pwcflow.flow_file.checks import (
    Metadata,
    check_deflated,
    check_length,
    check_size,
    cut_short,
    damaged,
    import_package,
    size_of,
)
from pwcflow.flow_file.field import Flow, Size, as_flow
from pwcflow.flow_file.npy import check_is_flow
from pwcflow.flow_file.npz import metadata_from

PACKAGE, EXTRA = "h5py", "hdf5"
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_SUPERBLOCK = 100  # its first bytes, the longest kind
_NO_CHECKSUM = bytes(4)
_GZIP_LEVEL = 5  # that of Spring
_FLOW, _METADATA = "flow", "metadata"


def read(path: Path, file: BinaryIO) -> Flow:
    """Return the flow as stored, (H, W, 2); unknown pixels keep their values."""
    with _Opened(path, file) as opened:
        dataset = opened.dataset(_FLOW)
        _check_sizes(path, dataset, size_of(file))
        return as_flow(dataset[()])


def check_written(path: Path, file: BinaryIO, size: Size) -> None:
    """Check that the file is as long as it says, and that its last bytes are not left as zeros.

    What is last is a block, packed by zlib, whose checksum at the end is not 0 (RFC 1950, section
    2.2). Where zeros are last, which part of an index may be, the whole is read. The size is known
    only then: to ask the library for it would take ten times as long.
    """
    _check_superblock(path, file)
    file.seek(size_of(file) - len(_NO_CHECKSUM))
    if file.read() == _NO_CHECKSUM:
        file.seek(0)
        height, width, _ = read(path, file).shape
        check_size(path, (height, width), size)


def read_metadata(path: Path, file: BinaryIO) -> Metadata:
    """Return what `write` was given; nothing where a file has no such dataset."""
    with _Opened(path, file) as opened:
        if _METADATA not in opened.names():
            return {}
        dataset = opened.dataset(_METADATA)
        is_text = dataset.dtype == np.uint8 and dataset.chunks is None and dataset.ndim == 1
        if not is_text or dataset.id.get_storage_size() != dataset.size:
            return {}
        return metadata_from(dataset[()].tobytes().decode("utf-8", "replace"))


def write(path: Path, flow: Flow, metadata: Metadata) -> int:
    """Write every value as it is, and the metadata as bytes of JSON in a dataset of their own.

    They are no attribute: the library may hang on a damaged one that holds text of any length.
    """
    h5py = import_package(path, PACKAGE, EXTRA)
    # In memory, as the library ends the process on a full disk. To it, files of one name are one.
    with h5py.File(path, "w", driver="core", backing_store=False) as file:
        # By planes of bytes, as each HDF5 library can undo, the flow of a network takes three
        # quarters of the room, and less time.
        file.create_dataset(
            _FLOW, data=flow, shuffle=True, compression="gzip", compression_opts=_GZIP_LEVEL
        )
        if metadata:
            file[_METADATA] = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
        file.flush()
        data = file.id.get_file_image()
    with replacing(path) as temporary:
        temporary.write_bytes(data)
    return 0


class _Opened:
    """An HDF5 file; whatever the library raises inside the block is told as damage."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        _check_superblock(path, file)
        self._path = path
        self._file: Any = None
        self._h5py = import_package(path, PACKAGE, EXTRA)

    def __enter__(self) -> "_Opened":
        try:
            self._file = self._h5py.File(self._path, "r")
        except Exception as error:
            raise damaged(self._path, _one_line(error)) from error
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._file.close()
        if isinstance(error, Exception) and not isinstance(error, (FlowFileError, MemoryError)):
            raise damaged(self._path, _one_line(error)) from error

    def names(self) -> list[str]:
        """Return what lies at the top of the file."""
        return [str(name) for name in self._file]

    def dataset(self, name: str) -> Any:
        """Return a dataset, if it lies in this very file."""
        if name not in self.names():
            listed = ", ".join(self.names())[:200] or "nothing"
            raise FlowFileError(
                f"{self._path} holds {listed}, but no dataset '{name}'; rename the one that is"
            )
        link = self._file.get(name, getlink=True)
        dataset = self._file[name] if isinstance(link, self._h5py.HardLink) else None
        if not isinstance(dataset, self._h5py.Dataset):
            raise FlowFileError(
                f"{self._path}: its '{name}' is a link or a group, not a dataset; copy the "
                "values in"
            )
        if dataset.is_virtual or dataset.external:
            raise FlowFileError(
                f"{self._path}: its '{name}' lies in other files; copy the values in"
            )
        return dataset


def _check_superblock(path: Path, file: BinaryIO) -> None:
    """Raise unless the file is as long as its superblock says.

    Source: "HDF5 File Format Specification Version 3.0", section II.A.
    """
    start = file.read(_SUPERBLOCK)
    size = size_of(file)
    if start[: len(_SIGNATURE)] != _SIGNATURE[: len(start)] or not start:
        raise FlowFileError(
            f"{path} is not a .flo5 file: it does not begin as HDF5 does; check where it came from"
        )
    if len(start) < _SUPERBLOCK:
        raise cut_short(path, f"its first block needs {_SUPERBLOCK} bytes", size)
    version = start[8]
    if version > 3:
        raise damaged(path, f"it says that it is of version {version} of HDF5, and 3 is the last")
    width, at = (start[13], 24 + 4 * (version == 1)) if version < 2 else (start[9], 12)
    if width not in (2, 4, 8):
        raise damaged(path, f"it says that a position takes {width} bytes")
    end = int.from_bytes(start[at + 2 * width : at + 3 * width], "little")
    if end > size:
        raise cut_short(path, f"its first block says {end} bytes", size)


def _check_sizes(path: Path, dataset: Any, size: int) -> None:
    """Raise unless the bytes that are stored can hold the array, and each of its chunks."""
    shape, dtype = dataset.shape, dataset.dtype
    check_is_flow(path, shape or (), dtype)
    claim = f"shape {shape} of {dtype}"
    stored = dataset.id.get_storage_size()
    raw = dtype.itemsize * math.prod(shape)
    if stored > size:
        raise cut_short(path, f"its values take {stored} bytes", size)
    if dataset.chunks is None:
        check_length(path, claim, raw, stored)
        return
    chunk = dtype.itemsize * math.prod(dataset.chunks)
    wanted = math.prod(-(-side // step) for side, step in zip(shape, dataset.chunks, strict=True))
    check_deflated(path, claim, max(raw, chunk), stored)
    if (held := dataset.id.get_num_chunks()) != wanted:
        raise damaged(path, f"it has {held} of its {wanted} blocks of values")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
