"""The formats by suffix: reading and writing start here."""

import math
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

import numpy as np

from pwcflow.errors import FlowFileError, OutputError, reason_of
from pwcflow.flow_file import exr, flo5, kitti, middlebury, npy, npz, pair, pfm
from pwcflow.flow_file.checks import Metadata, check_package
from pwcflow.flow_file.field import Flow, Size
from pwcflow.image_file import IMAGE_SUFFIXES

Direction: TypeAlias = Literal["forward", "backward"]
"""From a frame to the next one, or to the previous one."""


class _Format(NamedTuple):
    kind: str
    read: Callable[[Path, BinaryIO], Flow]
    write: Callable[[Path, Flow, Metadata], int]
    check_written: Callable[[Path, BinaryIO, Size], None]
    read_metadata: Callable[[Path, BinaryIO], Metadata] | None = None
    package: tuple[str, str] | None = None
    """What it needs beside this package's own, and the extra that brings it."""


_FORMATS = {
    ".flo": _Format("Middlebury .flo", middlebury.read, middlebury.write, middlebury.check_written),
    ".png": _Format("KITTI 16-bit .png", kitti.read, kitti.write, kitti.check_written),
    ".npy": _Format("NumPy .npy", npy.read, npy.write, npy.check_written),
    ".npz": _Format("NumPy .npz", npz.read, npz.write, npz.check_written, npz.read_metadata),
    ".pfm": _Format("three-channel .pfm", pfm.read, pfm.write, pfm.check_written),
    ".flo5": _Format(
        "Spring .flo5 (HDF5)",
        flo5.read,
        flo5.write,
        flo5.check_written,
        flo5.read_metadata,
        (flo5.PACKAGE, flo5.EXTRA),
    ),
    ".exr": _Format(
        "OpenEXR motion vectors",
        exr.read,
        exr.write,
        exr.check_written,
        exr.read_metadata,
        (exr.PACKAGE, exr.EXTRA),
    ),
}

FLOW_SUFFIXES = tuple(_FORMATS)
"""Suffixes, in lower case, of the files that hold a flow in one file."""


class Kind(NamedTuple):
    """What a flow file is."""

    name: str
    bound: float | None
    """The largest motion in pixels that a pair of 8-bit pictures holds; None for other files."""
    directions: tuple[str, ...] = ("forward",)
    """An .exr may hold "forward", "backward" or both."""


def read_flow(
    path: str | Path, *, bound: float | None = None, direction: Direction = "forward"
) -> Flow:
    """Return the flow in a file, (H, W, 2) float32, in pixels.

    Pixels that a format marks as invalid (KITTI .png, .npz; and those of an .exr without data) are
    NaN in both components. Other files' values are kept as stored, also those that mean "unknown";
    `known_pixels` knows both. `path` may be the u half of a pair of 8-bit pictures, such as
    flow_x_00001.jpg beside flow_y_00001.jpg.

    Args:
        path: the file; its suffix decides the format.
        bound: the motion in pixels that is white in a pair of pictures which does not record it.
        direction: which of the two that an .exr may hold; other files hold one, taken as forward.

    Raises:
        FlowFileError: the suffix is unknown, the file is missing or damaged, it does not hold the
            direction, or the package that reads it is missing.
    """
    path = Path(path)
    with _explained(path):
        row = _format_of(path)
        if direction == "backward":
            if row is None or row.write is not exr.write:
                raise FlowFileError(f"{path} holds one flow, and only an .exr has a backward one")
            with path.open("rb") as file:
                return exr.read(path, file, direction)
        if row is None:
            return pair.read(path, bound)
        with path.open("rb") as file:
            return row.read(path, file)


def read_metadata(path: str | Path) -> Metadata:
    """Return what a file of .npz, .flo5 or .exr tells of itself; empty for others.

    Raises:
        FlowFileError: as `read_flow`.
    """
    path = Path(path)
    with _explained(path):
        row = _format_of(path)
        if row is None or row.read_metadata is None:
            return {}
        with path.open("rb") as file:
            return row.read_metadata(path, file)


def check_written(path: str | Path, size: Size) -> None:
    """Check that a file begins and ends as `write_flow` leaves a flow of this height and width.

    Its values are not read, so that thousands of files are checked in a second: this finds what was
    cut short, and what a power cut left as zeros at the beginning, or in compressed files at the
    end. Of an .npz only the number of pixels is checked, of an .flo5 not even that.

    Raises:
        FlowFileError: as `read_flow`, or it begins or ends otherwise, or is of another size.
    """
    path = Path(path)
    with _explained(path):
        row = _format_of(path)
        if row is None:
            raise FlowFileError(f"{path} is half of a pair of pictures, not a flow in one file")
        with path.open("rb") as file:
            row.check_written(path, file, size)


def kind_of(path: str | Path) -> Kind:
    """Return which format a flow file is of; its values are not read.

    Raises:
        FlowFileError: as `read_flow`.
    """
    path = Path(path)
    with _explained(path):
        row = _format_of(path)
        if row is None:
            return Kind(pair.KIND, pair.recorded_bound(path))
        if row.write is not exr.write:
            return Kind(row.kind, None)
        with path.open("rb") as file:
            return Kind(row.kind, None, exr.directions(path, file))


def write_flow(
    path: str | Path,
    flow: Flow,
    *,
    bound: float | None = None,
    metadata: Metadata | None = None,
    backward: Flow | None = None,
) -> int:
    """Write a flow (H, W, 2) float32, in pixels; the suffix decides the format.

    .flo .npy .npz .pfm .flo5 and .exr hold every float32 exactly; in an .npz unknown pixels are
    marked, and read as NaN. A KITTI .png holds -512 to 511.98 in steps of 1/64; pixels out of this
    range are clipped and marked invalid, unknown ones are marked invalid. A pair of 8-bit pictures
    holds -bound to bound in steps of bound / 127.5; unknown pixels become no motion there.

    Args:
        path: the file, or with `bound` the u half of a pair: NAME_x.png, or flow_x_00001.jpg.
        flow: the flow.
        bound: write a pair of pictures, in which this motion in pixels is white.
        metadata: what JSON holds, by name; kept by .npz, .flo5 and .exr.
        backward: a flow of the same size to the previous frame, which an .exr holds beside the
            one to the next.

    Returns:
        how many pixels were lost: known, but beyond what the format holds, or unknown where it
        cannot say so.

    Raises:
        ValueError: the array is not a flow, or the bound is not above 0; or two directions differ
            in size, or are not for an .exr.
        OutputError: the suffix is unknown, the format cannot hold this size, its package is
            missing, or the file cannot be written; an existing one is then left as it was.
    """
    path = Path(path)
    _check_array(flow)
    if bound is not None and not (bound > 0 and math.isfinite(bound)):
        raise ValueError(f"a bound is a number above 0, but {bound = }")
    suffix = check_flow_suffix(path, bound=bound)
    if backward is not None:
        _check_array(backward)
        if backward.shape != flow.shape or suffix != ".exr":
            raise ValueError(f"{flow.shape} and {backward.shape} in one {suffix}")
        return exr.write(path, flow, metadata or {}, backward)
    if bound is not None:
        return pair.write(path, flow, bound)
    return _FORMATS[suffix].write(path, flow, metadata or {})


def check_flow_suffix(path: Path, *, bound: float | None = None) -> str:
    """Return the suffix of `path` in lower case, if `write_flow` can write it.

    Raises:
        OutputError: it cannot; the message lists the suffixes that it can.
    """
    suffix = path.suffix.lower()
    if bound is not None:
        pair.check_half(path)
        return suffix
    if suffix not in _FORMATS:
        raise OutputError(f"cannot write flow to {path}: {_why_not(suffix)}")
    if package := _FORMATS[suffix].package:
        check_package(path, *package)
    return suffix


def is_flow_name(path: Path) -> bool:
    """Return whether a file in a folder is called as a flow is; the v half of a pair is not."""
    if path.name.startswith("."):  # a file that is being written, or left by a Mac
        return False
    if pair.is_half(path, "y") and pair.other_half(path).is_file():
        return False
    is_pair = pair.is_half(path, "x") and pair.other_half(path).is_file()
    return is_pair or path.suffix.lower() in _FORMATS


def _check_array(flow: Flow) -> None:
    if flow.ndim != 3 or flow.shape[2] != 2 or 0 in flow.shape:
        raise ValueError(f"a flow is (H, W, 2), but {flow.shape = }")
    if flow.dtype != np.float32:
        raise ValueError(f"a flow is float32, but {flow.dtype = }")


def _format_of(path: Path) -> _Format | None:
    """Return the format of a file that is there; None for a half of a pair of pictures.

    Raises:
        FlowFileError: it cannot be one by its name or kind.
        OSError: it is not there.
    """
    suffix = path.suffix.lower()
    is_half = pair.is_half(path, "x") or pair.is_half(path, "y")
    if not suffix and not path.exists():  # a folder, perhaps, whose name is mistyped
        raise FlowFileError(f"there is no file {path}; check the name and the folder")
    if suffix not in _FORMATS and not is_half:
        raise FlowFileError(f"{path} is not a flow file: {_why_not(suffix)}")
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise FlowFileError(f"{path} is a folder, not a flow file; name one file in it")
    if not stat.S_ISREG(mode):  # opening a pipe would wait for its writer
        raise FlowFileError(f"{path} is a pipe or a device; save the flow in a file first")
    if is_half and (suffix in pair.JPEG_SUFFIXES or pair.is_gray(path)):
        return None
    return _FORMATS[suffix]


def _why_not(suffix: str) -> str:
    """Return why a suffix is not one of FLOW_SUFFIXES, and what to use instead."""
    known = " ".join(_FORMATS)
    if suffix in IMAGE_SUFFIXES:
        return (
            f"{suffix} holds pictures, and a picture cannot be turned back into flow; use {known}"
        )
    kind = f"its suffix {suffix} is unknown" if suffix else "it has no suffix"
    return f"{kind}; use {known}"


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what the system says inside the block into a sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise FlowFileError(f"there is no file {path}; check the name and the folder") from error
    except OSError as error:
        raise FlowFileError(f"cannot read {path}: {reason_of(error)}; check the file") from error
