"""Flow fields on disk: .flo, KITTI .png and .npy, chosen by suffix.

A flow is (H, W, 2) float32 in pixels: [..., 0] = u to the right, [..., 1] = v down, from the first
image to the second.
"""

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pwcflow.atomic_file import replacing
from pwcflow.errors import FlowFileError, ImageError, OutputError, reason_of
from pwcflow.image_file import IMAGE_SUFFIXES, read_image, write_image

Flow: TypeAlias = npt.NDArray[np.float32]
Mask: TypeAlias = npt.NDArray[np.bool_]

UNKNOWN_ABOVE = 1e9  # UNKNOWN_FLOW_THRESH of the Middlebury code (flowIO.h)

_FLO_MAGIC = b"PIEH"  # the float 202021.25, little endian
_FLO_HEADER = struct.Struct("<4sii")
_FLO_MAX_SIDE = 99999  # the limit in the Middlebury code (flowIO.cpp)
_PNG_HEADER = struct.Struct(">8sI4sIIBB")  # signature, length, "IHDR", width, height, depth, colour
_PNG_RGB = 2
_KITTI_SCALE = 64.0
_KITTI_ZERO = 32768.0
_KITTI_MAX = 65535.0


def read_flow(path: str | Path) -> Flow:
    """Return the flow in a file, (H, W, 2) float32, in pixels.

    Values of .flo and .npy are kept as stored, also those that mean "unknown" (see `known_pixels`);
    pixels that a KITTI .png marks invalid are NaN in both components.

    Raises:
        FlowFileError: the suffix is unknown, or the file is missing or damaged.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _FORMATS:
        raise FlowFileError(f"{path} is not a flow file: {_why_not(suffix)}")
    try:
        if path.is_dir():
            raise FlowFileError(f"{path} is a folder, not a flow file; name one file in it")
        if path.exists() and not path.is_file():  # opening a pipe would wait for its writer
            raise FlowFileError(f"{path} is a pipe or a device; save the flow in a file first")
        with path.open("rb") as file:
            return _FORMATS[suffix].read(path, file)
    except FileNotFoundError as error:
        raise FlowFileError(f"there is no file {path}; check the name and the folder") from error
    except OSError as error:
        raise FlowFileError(f"cannot read {path}: {reason_of(error)}; check the file") from error


def write_flow(path: str | Path, flow: Flow) -> None:
    """Write a flow (H, W, 2), in pixels; the suffix decides the format.

    .flo and .npy hold every float32 exactly. A KITTI .png holds -512 to 511.98 in steps of 1/64;
    pixels out of this range are clipped and marked invalid, unknown ones are marked invalid.

    Raises:
        ValueError: the array is not a flow.
        OutputError: the suffix is unknown, the format cannot hold this size, or the file cannot be
            written; an existing one is then left as it was.
    """
    path = Path(path)
    suffix = check_flow_suffix(path)
    if flow.ndim != 3 or flow.shape[2] != 2 or 0 in flow.shape:
        raise ValueError(f"a flow is (H, W, 2), but {flow.shape = }")
    if flow.dtype != np.float32:
        raise ValueError(f"a flow is float32, but {flow.dtype = }")
    _FORMATS[suffix].write(path, flow)


def check_flow_suffix(path: Path) -> str:
    """Return the suffix of `path` in lower case, if `write_flow` can write it.

    Raises:
        OutputError: it cannot; the message lists the suffixes that it can.
    """
    suffix = path.suffix.lower()
    if suffix not in _FORMATS:
        raise OutputError(f"cannot write flow to {path}: {_why_not(suffix)}")
    return suffix


def known_pixels(flow: Flow) -> Mask:
    """Return where a flow (H, W, 2) is known, as bool (H, W): finite, and neither |value| > 1e9.

    Source: `unknown_flow` of the Middlebury code (flowIO.cpp).
    """
    small: Mask = np.abs(flow) <= UNKNOWN_ABOVE  # false for NaN
    return small[..., 0] & small[..., 1]


def _why_not(suffix: str) -> str:
    """Return why a suffix is not one of FLOW_SUFFIXES, and what to use instead."""
    known = " ".join(_FORMATS)
    if suffix in IMAGE_SUFFIXES:
        return (
            f"{suffix} holds pictures, and a picture cannot be turned back into flow; use {known}"
        )
    kind = f"its suffix {suffix} is unknown" if suffix else "it has no suffix"
    return f"{kind}; use {known}"


def _read_flo(path: Path, file: BinaryIO) -> Flow:
    header = file.read(_FLO_HEADER.size)
    size = _size_of(file)
    if header[:4] != _FLO_MAGIC[: len(header)] or not header:
        raise FlowFileError(
            f"{path} is not a .flo file: it does not begin with 'PIEH'; check where it came from"
        )
    if len(header) < _FLO_HEADER.size:
        raise FlowFileError(
            f"{path} is cut short: its header needs {_FLO_HEADER.size} bytes, "
            f"but the file has {size}; write it again"
        )
    _, width, height = _FLO_HEADER.unpack(header)
    if not (1 <= width <= _FLO_MAX_SIDE and 1 <= height <= _FLO_MAX_SIDE):
        raise FlowFileError(
            f"{path} is damaged: its header says {width} x {height} pixels, "
            f"and a side has 1 to {_FLO_MAX_SIDE}; write it again"
        )
    _check_length(path, f"{width} x {height} pixels", _FLO_HEADER.size + 8 * width * height, size)
    flow = np.fromfile(file, "<f4", count=2 * width * height).reshape(height, width, 2)
    return flow.astype(np.float32, copy=False)


def _write_flo(path: Path, flow: Flow) -> None:
    height, width = flow.shape[:2]
    if max(width, height) > _FLO_MAX_SIDE:
        raise OutputError(
            f"cannot write {path}: it is {width} x {height} pixels, and a side of .flo has at most "
            f"{_FLO_MAX_SIDE}; use .npy"
        )
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(_FLO_HEADER.pack(_FLO_MAGIC, width, height))
        file.write(np.ascontiguousarray(flow, "<f4").data)


def _read_kitti(path: Path, file: BinaryIO) -> Flow:
    header = file.read(_PNG_HEADER.size)
    if header[:8] != b"\x89PNG\r\n\x1a\n":
        raise FlowFileError(f"{path} is not a PNG file; check where it came from")
    if len(header) < _PNG_HEADER.size:
        raise FlowFileError(f"{path} is cut short: it has {len(header)} bytes; write it again")
    *_, depth, colour = _PNG_HEADER.unpack(header)
    if depth != 16 or colour != _PNG_RGB:
        kind = "a colour" if colour not in (0, 4) else "a gray"
        raise FlowFileError(
            f"{path} is {kind} picture with {depth} bits a channel, not a KITTI flow (16-bit RGB), "
            "and a picture cannot be turned back into flow; use the flow file it was made from"
        )
    try:
        encoded = read_image(path)
    except ImageError as error:
        raise FlowFileError(str(error)) from error
    flow = (encoded[..., :2].astype(np.float32) - np.float32(_KITTI_ZERO)) / np.float32(
        _KITTI_SCALE
    )
    flow[encoded[..., 2] == 0] = np.nan
    return flow


def _write_kitti(path: Path, flow: Flow) -> None:
    """Write value * 64 + 2^15 as 16-bit RGB (u, v, valid).

    Source: Menze and Geiger, KITTI 2015 development kit, readme.txt and io_flow.h; the kit
    truncates and calls clipped pixels valid, here they are rounded half to even and invalid.
    """
    known = known_pixels(flow)
    values = np.where(known[..., None], flow, 0).astype(np.float64)
    values = np.rint(values * _KITTI_SCALE + _KITTI_ZERO)
    fits = (values >= 0) & (values <= _KITTI_MAX)
    encoded = np.zeros((*known.shape, 3), np.uint16)
    encoded[..., :2] = np.where(known[..., None], values.clip(0, _KITTI_MAX), 0)
    encoded[..., 2] = known & fits[..., 0] & fits[..., 1]
    write_image(path, encoded)


def _read_npy(path: Path, file: BinaryIO) -> Flow:
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # numpy parses the header as Python, with whatever that raises
        raise FlowFileError(
            f"{path} is not a .npy file, or its header is damaged; write it again with numpy.save"
        ) from error
    if dtype.hasobject:
        raise FlowFileError(
            f"{path} holds Python objects, which are never loaded; save a float32 array instead"
        )
    if len(shape) != 3 or shape[2] != 2 or min(shape) < 1 or dtype.kind != "f":
        raise FlowFileError(
            f"{path} holds {dtype} of shape {shape}, not a flow; save float32 of shape (H, W, 2)"
        )
    expected = file.tell() + dtype.itemsize * shape[0] * shape[1] * 2
    _check_length(path, f"shape {shape} of {dtype}", expected, _size_of(file))
    file.seek(0)
    with np.errstate(over="ignore"):  # a float64 too large for float32 becomes inf, so unknown
        return np.ascontiguousarray(np.load(file, allow_pickle=False), np.float32)


def _write_npy(path: Path, flow: Flow) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, np.ascontiguousarray(flow), allow_pickle=False)


def _size_of(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _check_length(path: Path, claim: str, expected: int, size: int) -> None:
    """Raise unless the file has exactly the bytes its header claims; nothing is allocated yet."""
    if size == expected:
        return
    fault = "is cut short" if size < expected else "is too long"
    raise FlowFileError(
        f"{path} {fault}: its header says {claim}, which needs {expected} bytes, "
        f"but the file has {size}; write it again"
    )


class _Format(NamedTuple):
    read: Callable[[Path, BinaryIO], Flow]
    write: Callable[[Path, Flow], None]


_FORMATS = {
    ".flo": _Format(_read_flo, _write_flo),
    ".png": _Format(_read_kitti, _write_kitti),
    ".npy": _Format(_read_npy, _write_npy),
}

FLOW_SUFFIXES = frozenset(_FORMATS)
"""Suffixes, in lower case, of the files that `read_flow` and `write_flow` take."""
