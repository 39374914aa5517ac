"""NumPy's .npz, compressed: `flow` (H, W, 2) float32, `valid` (H, W) bool, `metadata` as JSON text.

Others' files need `flow` only. Source: numpy.savez_compressed; the names are our own.
"""

import io
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pwcflow.atomic_file import replacing
from pwcflow.errors import FlowFileError
from pwcflow.flow_file.checks import (
    Metadata,
    check_deflated,
    check_length,
    cut_short,
    damaged,
    size_of,
)
from pwcflow.flow_file.field import Flow, Size, as_flow, known_pixels
from pwcflow.flow_file.npy import check_is_flow, header_of

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ZIP_START = b"PK\x03\x04"


def read(path: Path, file: BinaryIO) -> Flow:
    """Return the flow (H, W, 2), NaN where `valid` is false."""
    with _open(path, file) as archive:
        flow = as_flow(_array(path, archive, "flow"))
        if "valid.npy" not in archive.namelist():
            return flow
        valid = _array(path, archive, "valid")
    if valid.shape != flow.shape[:2] or valid.dtype.kind not in "bu":
        raise FlowFileError(
            f"{path} holds 'valid' of shape {valid.shape} and {valid.dtype}, which does not belong "
            f"to its flow of shape {flow.shape}; save bool of shape (H, W)"
        )
    flow[valid == 0] = np.nan
    return flow


def check_written(path: Path, file: BinaryIO, size: Size) -> None:
    """Check the file's beginning, and by the table of contents at its end how long its arrays are.

    To unpack as much as tells the two sides apart would take twice as long.
    """
    height, width = size
    with _open(path, file) as archive:
        lengths = {info.filename: info.file_size for info in archive.infolist()}
        for name, length in (
            ("flow", _length_of((height, width, 2), "f4")),
            ("valid", _length_of((height, width), "?")),
        ):
            if lengths.get(f"{name}.npy") != length:
                raise damaged(path, f"its '{name}' is not that of {width} x {height} pixels")


def read_metadata(path: Path, file: BinaryIO) -> Metadata:
    """Return what `write` was given; nothing where a file has no such member."""
    with _open(path, file) as archive:
        if "metadata.npy" not in archive.namelist():
            return {}
        stored = _array(path, archive, "metadata")
    return metadata_from(str(stored)) if stored.dtype.kind == "U" and stored.ndim == 0 else {}


def metadata_from(text: str) -> Metadata:
    """Return the object in a JSON text; nothing for other texts, which are not of ours."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write(path: Path, flow: Flow, metadata: Metadata) -> int:
    """Write every value as it is, where it is known, and the metadata."""
    arrays = {
        "flow": np.ascontiguousarray(flow),
        "valid": known_pixels(flow),
        "metadata": np.array(json.dumps(metadata)),
    }
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return 0


@cache
def _length_of(shape: tuple[int, ...], dtype: str) -> int:
    """Return how many bytes an array takes as .npy."""
    array = np.broadcast_to(np.zeros((), dtype), shape)
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
    return stream.tell() + array.size * array.itemsize


def _open(path: Path, file: BinaryIO) -> zipfile.ZipFile:
    start = file.read(len(_ZIP_START))
    size = size_of(file)
    if start != _ZIP_START[: len(start)] or not start:
        raise FlowFileError(
            f"{path} is not a .npz file: it does not begin as a ZIP archive does; "
            "check where it came from"
        )
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise cut_short(path, "the table of contents at its end is missing or cut", size) from error
    except Exception as error:  # zipfile lets through what struct, codecs and seeking raise
        raise damaged(path, "its table of contents cannot be read") from error
    names = archive.namelist()
    if "flow.npy" not in names:
        held = ", ".join(name.removesuffix(".npy") for name in names) or "nothing"
        raise FlowFileError(
            f"{path} holds {held[:200]}, but no array 'flow'; "
            "save it with numpy.savez(file, flow=flow)"
        )
    return archive


def _array(path: Path, archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """Return one member, once its sizes are known to be true."""
    info = archive.getinfo(f"{name}.npy")
    if info.compress_type not in _METHODS or info.flag_bits & 1:
        raise FlowFileError(
            f"{path} is encrypted or compressed in a way that NumPy does not write; "
            "save it with numpy.savez_compressed"
        )
    check_deflated(path, f"that '{name}' is long", info.file_size, info.compress_size)
    try:
        data = archive.read(info)
    except MemoryError:
        raise
    except Exception as error:  # whatever zipfile and zlib raise for damage, OSError included
        raise damaged(path, f"'{name}' cannot be unpacked ({error})") from error
    stream = io.BytesIO(data)
    header = header_of(path, stream)
    if name == "flow":
        check_is_flow(path, header.shape, header.dtype)
    claim = f"'{name}' of shape {header.shape} of {header.dtype}"
    check_length(path, claim, stream.tell() + header.nbytes, len(data))
    values = np.frombuffer(data, header.dtype, offset=stream.tell()).copy()  # to be written to
    return values.reshape(header.shape, order="F" if header.fortran_order else "C")
