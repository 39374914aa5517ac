"""KITTI's .png: 16-bit RGB that holds u * 64 + 2^15, v * 64 + 2^15, and 1 where that is valid.

Source: Menze and Geiger, KITTI 2015 development kit, readme.txt and io_flow.h; the kit truncates
and calls clipped pixels valid, here they are rounded half to even and invalid.
"""

from pathlib import Path
from typing import BinaryIO

import numpy as np

from pwcflow.errors import FlowFileError, ImageError
from pwcflow.flow_file import png
from pwcflow.flow_file.checks import Metadata, check_size, size_of
from pwcflow.flow_file.field import Flow, Size, known_pixels
from pwcflow.image_file import read_image, write_image

_SCALE = 64.0
_ZERO = 32768.0
_MAX = 65535.0


def read(path: Path, file: BinaryIO) -> Flow:
    """Return the flow in steps of 1/64 px, (H, W, 2), NaN where it is not valid."""
    _checked_header(path, file)
    try:
        encoded = read_image(path)
    except ImageError as error:
        raise FlowFileError(str(error)) from error
    flow = (encoded[..., :2].astype(np.float32) - np.float32(_ZERO)) / np.float32(_SCALE)
    flow[encoded[..., 2] == 0] = np.nan
    return flow


def check_written(path: Path, file: BinaryIO, size: Size) -> None:
    """Check the header, and that the file has its end."""
    header = _checked_header(path, file)
    check_size(path, (header.height, header.width), size)
    png.check_end(path, file, size_of(file))


def write(path: Path, flow: Flow, _: Metadata) -> int:
    """Write -512 to 511.98 px in steps of 1/64; what is beyond is clipped, invalid and counted."""
    known = known_pixels(flow)
    values = np.where(known[..., None], flow, 0).astype(np.float64)
    values = np.rint(values * _SCALE + _ZERO)
    fits = ((values >= 0) & (values <= _MAX)).all(-1)
    encoded = np.zeros((*known.shape, 3), np.uint16)
    encoded[..., :2] = np.where(known[..., None], values.clip(0, _MAX), 0)
    encoded[..., 2] = known & fits
    write_image(path, encoded)
    return int((known & ~fits).sum())


def _checked_header(path: Path, file: BinaryIO) -> png.PngHeader:
    """Return the header, if the file can hold what it claims."""
    header = png.header_of(path, file.read(33))
    if header.depth != 16 or header.colour != png.RGB:
        raise FlowFileError(
            f"{path} is {header.kind}, not a KITTI flow (16-bit RGB), "
            "and a picture cannot be turned back into flow; use the flow file it was made from"
        )
    png.check_size(path, header, size_of(file))
    return header
