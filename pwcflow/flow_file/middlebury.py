""".flo of the Middlebury benchmark: "PIEH", width and height as int32, then (u, v) as float32.

All little endian, row by row from the top. Source: Baker et al., vision.middlebury.edu/flow, the
README.txt and flowIO.cpp of its flow-code.
"""

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pwcflow.atomic_file import replacing
from pwcflow.errors import FlowFileError, OutputError
from pwcflow.flow_file.checks import (
    MAX_SIDE,
    Metadata,
    check_length,
    check_sides,
    check_size,
    cut_short,
    size_of,
)
from pwcflow.flow_file.field import Flow, Size, as_flow

_MAGIC = b"PIEH"  # the float 202021.25, little endian
_HEADER = struct.Struct("<4sii")


def read(path: Path, file: BinaryIO) -> Flow:
    """Return the flow as stored, (H, W, 2); unknown pixels keep their values."""
    height, width = _size_in(path, file)
    return as_flow(np.fromfile(file, "<f4", count=2 * width * height).reshape(height, width, 2))


def check_written(path: Path, file: BinaryIO, size: Size) -> None:
    """Check the header, and by it how long the file is."""
    check_size(path, _size_in(path, file), size)


def write(path: Path, flow: Flow, _: Metadata) -> int:
    """Write every value as it is."""
    height, width = flow.shape[:2]
    if max(width, height) > MAX_SIDE:
        raise OutputError(
            f"cannot write {path}: it is {width} x {height} pixels, and a side of .flo has at most "
            f"{MAX_SIDE}; use .npy"
        )
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(_HEADER.pack(_MAGIC, width, height))
        file.write(np.ascontiguousarray(flow, "<f4").data)
    return 0


def _size_in(path: Path, file: BinaryIO) -> Size:
    """Return height and width, if the file is as long as they say; leave it at its first value."""
    header = file.read(_HEADER.size)
    size = size_of(file)
    if header[:4] != _MAGIC[: len(header)] or not header:
        raise FlowFileError(
            f"{path} is not a .flo file: it does not begin with 'PIEH'; check where it came from"
        )
    if len(header) < _HEADER.size:
        raise cut_short(path, f"its header needs {_HEADER.size} bytes", size)
    _, width, height = _HEADER.unpack(header)
    check_sides(path, width, height)
    check_length(path, f"{width} x {height} pixels", _HEADER.size + 8 * width * height, size)
    return height, width
