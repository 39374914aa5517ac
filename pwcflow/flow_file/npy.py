"""NumPy's .npy: an array (H, W, 2) of float16, float32 or float64, read as float32.

Source: numpy.lib.format, "Format Version 1.0" and after.
"""

import math
import warnings
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np

from pwcflow.atomic_file import replacing
from pwcflow.errors import FlowFileError
from pwcflow.flow_file.checks import Metadata, check_length, check_size, size_of
from pwcflow.flow_file.field import Flow, Size, as_flow

FLOATS = ("f2", "f4", "f8")


class ArrayHeader(NamedTuple):
    """What an array is like."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: "np.dtype[Any]"

    @property
    def nbytes(self) -> int:
        """How many bytes its values take; Python's integers do not overflow."""
        return self.dtype.itemsize * math.prod(self.shape)


def header_of(path: Path, file: IO[bytes]) -> ArrayHeader:
    """Return the header of an array, and leave the file at its first value."""
    try:
        with warnings.catch_warnings():  # that a header is of Python 2
            warnings.simplefilter("ignore")
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                header = ArrayHeader(*np.lib.format.read_array_header_1_0(file))
            else:
                header = ArrayHeader(*np.lib.format.read_array_header_2_0(file))
    except (OSError, MemoryError):
        raise
    except Exception as error:  # numpy parses the header as Python, with whatever that raises
        raise FlowFileError(
            f"{path} is not a .npy file, or its header is damaged; write it again with numpy.save"
        ) from error
    if header.dtype.hasobject:
        raise FlowFileError(
            f"{path} holds Python objects, which are never loaded; save a float32 array instead"
        )
    return header


def check_is_flow(path: Path, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> None:
    """Raise unless an array is (H, W, 2), of one pixel or more, and of floats."""
    if len(shape) != 3 or shape[2] != 2 or min(shape) < 1 or dtype.str[1:] not in FLOATS:
        raise FlowFileError(
            f"{path} holds {dtype} of shape {shape}, not a flow; save float32 of shape (H, W, 2)"
        )


def read(path: Path, file: BinaryIO) -> Flow:
    """Return the flow as stored, (H, W, 2); unknown pixels keep their values."""
    header = _checked_header(path, file)
    values = np.fromfile(file, header.dtype, count=math.prod(header.shape))
    return as_flow(values.reshape(header.shape, order="F" if header.fortran_order else "C"))


def check_written(path: Path, file: BinaryIO, size: Size) -> None:
    """Check the header, and by it how long the file is."""
    height, width, _ = _checked_header(path, file).shape
    check_size(path, (height, width), size)


def write(path: Path, flow: Flow, _: Metadata) -> int:
    """Write every value as it is."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        values = np.ascontiguousarray(flow)
        header = np.lib.format.header_data_from_array_1_0(values)
        np.lib.format.write_array_header_1_0(file, header)
        file.write(values.data)  # numpy.save tells of a full disk, but not that it is that
    return 0


def _checked_header(path: Path, file: BinaryIO) -> ArrayHeader:
    """Return the header of a flow, if its values are there; leave the file at the first one."""
    header = header_of(path, file)
    check_is_flow(path, header.shape, header.dtype)
    claim = f"shape {header.shape} of {header.dtype}"
    check_length(path, claim, file.tell() + header.nbytes, size_of(file))
    return header
