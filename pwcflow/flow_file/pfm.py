""".pfm of three float32 channels: u, v and one that is 0; from the bottom row to the top.

The sign of the scale in its header tells the endianness: below 0 is little. Its magnitude and the
third channel are ignored, as FlyingThings3D's own reader does. Sources: "Scene Flow Datasets",
University of Freiburg, "Data formats"; netpbm.sourceforge.net/doc/pfm.html.
"""

import math
import re
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pwcflow.atomic_file import replacing
from pwcflow.errors import FlowFileError
from pwcflow.flow_file.checks import (
    Metadata,
    check_length,
    check_sides,
    check_size,
    cut_short,
    damaged,
    size_of,
)
from pwcflow.flow_file.field import Flow, Size, as_flow

_LONGEST_HEADER = 128
_HEADER = re.compile(rb"P[Ff]\s+([-+]?\d{1,11})\s+([-+]?\d{1,11})\s+([-+.\deE]{1,24})(?:\r\n|\s)")


def read(path: Path, file: BinaryIO) -> Flow:
    """Return the flow as stored, (H, W, 2); unknown pixels keep their values."""
    (height, width), dtype = _header_of(path, file)
    values = np.fromfile(file, dtype, count=3 * width * height)
    return as_flow(values.reshape(height, width, 3)[::-1, :, :2])


def check_written(path: Path, file: BinaryIO, size: Size) -> None:
    """Check the header, and by it how long the file is."""
    check_size(path, _header_of(path, file)[0], size)


def write(path: Path, flow: Flow, _: Metadata) -> int:
    """Write every value as it is, little endian."""
    height, width = flow.shape[:2]
    pixels = np.zeros((height, width, 3), "<f4")
    pixels[..., :2] = flow[::-1]
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(f"PF\n{width} {height}\n-1.0\n".encode())
        file.write(pixels.data)
    return 0


def _header_of(path: Path, file: BinaryIO) -> tuple[Size, str]:
    """Return the size and the type of the values, all there; leave the file at the first one."""
    start = file.read(_LONGEST_HEADER)
    size = size_of(file)
    if start[:2] == b"Pf":
        raise FlowFileError(
            f"{path} holds one channel, such as a disparity, and a flow has three; use another file"
        )
    if start[:2] != b"PF"[: len(start)] or not start:
        raise FlowFileError(
            f"{path} is not a .pfm file: it does not begin with 'PF'; check where it came from"
        )
    header = _HEADER.match(start)
    if header is None:
        if size < 16:  # a pixel and the shortest header take more
            raise cut_short(path, "its header of width, height and scale is not complete", size)
        raise damaged(path, "after 'PF' there is no width, height and scale")
    width, height, scale = int(header[1]), int(header[2]), _number(header[3])
    check_sides(path, width, height)
    if not math.isfinite(scale) or scale == 0:
        raise damaged(
            path,
            f"its scale is {header[3].decode()}, whose sign is to tell the endianness",
        )
    expected = header.end() + 12 * width * height
    check_length(path, f"{width} x {height} pixels", expected, size)
    file.seek(header.end())
    return (height, width), "<f4" if scale < 0 else ">f4"


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
