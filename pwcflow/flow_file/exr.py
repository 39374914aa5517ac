""".exr with motion vectors in `forward.u`, `forward.v`, `backward.u`, `backward.v`, half or float.

These are the names and the directions of compositing programs: in pixels to the next and to the
previous frame, u to the right and v UP, so v changes its sign on the way. Source: "Working with
Channels and Layers" of Foundry's Nuke Python guide. The library is the format's own, OpenEXR:
OpenCV's is off unless an environment variable is set, reads three or four channels, and cannot name
them.
"""

import errno
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pwcflow.atomic_file import replacing
from pwcflow.errors import FlowFileError, OutputError
from pwcflow.exr_header import ExrPart
from pwcflow.flow_file.checks import Metadata, check_size, damaged, import_package, size_of
from pwcflow.flow_file.exr_claims import CHANNELS, check_end, check_sizes, checked_parts
from pwcflow.flow_file.field import Flow, Size, as_flow
from pwcflow.flow_file.npz import metadata_from
from pwcflow.openexr_log import quiet_openexr

PACKAGE, EXTRA = "OpenEXR", "exr"
_METADATA = "pwcflow"
_REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def read(path: Path, file: BinaryIO, direction: str = "forward") -> Flow:
    """Return the flow of the whole display window, (H, W, 2), NaN where no data lies in it."""
    parts = checked_parts(path, file)
    part = _part_with_flow(path, parts, direction)
    for each in parts:  # the library decodes all
        check_sizes(path, each, file, size_of(file))
    library = import_package(path, PACKAGE, EXTRA)
    u, v = _decoded(path, library, parts.index(part), part, direction)
    flow = np.full((part.display.height, part.display.width, 2), np.nan, np.float32)
    rows, columns = part.rows, part.columns
    held = np.stack([as_flow(u), -as_flow(v)], -1)
    flow[rows.in_display, columns.in_display] = held[rows.in_data, columns.in_data]
    return flow


def check_written(path: Path, file: BinaryIO, size: Size) -> None:
    """Check the header, and that the file has its end."""
    part = _part_with_flow(path, checked_parts(path, file), "forward")
    check_size(path, (part.display.height, part.display.width), size)
    check_end(path, part, file, size_of(file))


def read_metadata(path: Path, file: BinaryIO) -> Metadata:
    """Return what `write` was given; nothing where a file has no such attribute."""
    parts = checked_parts(path, file)
    return metadata_from(next(filter(None, (part.text(_METADATA) for part in parts)), ""))


def directions(path: Path, file: BinaryIO) -> tuple[str, ...]:
    """Return in which directions a file holds motion: "forward", "backward", both or none."""
    parts = checked_parts(path, file)
    return tuple(
        direction
        for direction, names in CHANNELS.items()
        if any(set(names) <= part.channels.keys() for part in parts)
    )


def write(path: Path, flow: Flow, metadata: Metadata, backward: Flow | None = None) -> int:
    """Write every value as it is, as floats compressed by ZIP, and the metadata as an attribute."""
    library = import_package(path, PACKAGE, EXTRA)
    header = {"compression": library.ZIP_COMPRESSION, "type": library.scanlineimage}
    if metadata:
        header[_METADATA] = json.dumps(metadata)
    channels = {}
    for direction, each in (("forward", flow), ("backward", backward)):
        if each is not None:
            u, v = CHANNELS[direction]
            channels[u] = np.ascontiguousarray(each[..., 0])
            channels[v] = np.ascontiguousarray(-each[..., 1])
    with replacing(path) as temporary, quiet_openexr():
        try:
            library.File(header, channels).write(str(temporary))
        except RuntimeError as error:
            for number in _REFUSALS:  # which the library tells in words only
                if os.strerror(number) in str(error):
                    raise OSError(number, os.strerror(number)) from error
            raise OutputError(f"cannot write {path}: {error}; check the disk") from error
    return 0


def _part_with_flow(path: Path, parts: list[ExrPart], direction: str) -> ExrPart:
    u, v = CHANNELS[direction]
    for part in parts:
        if {u, v} <= part.channels.keys():
            return part
    held = ", ".join(name for part in parts for name in part.channels)[:200] or "nothing"
    frame = {"forward": "next", "backward": "previous"}[direction]
    raise FlowFileError(
        f"{path} holds the channels {held}, but not {u} and {v}; rename those that are motion in "
        f"pixels to the {frame} frame"
    )


def _decoded(
    path: Path, library: Any, index: int, part: ExrPart, direction: str
) -> tuple[Any, Any]:
    """Return u and v of the data window; what the library cannot decode it leaves out."""
    with quiet_openexr():
        try:
            with library.File(str(path), separate_channels=True) as image:
                channels = image.parts[index].channels
                u, v = (np.array(channels[name].pixels) for name in CHANNELS[direction])
        except MemoryError:
            raise
        except Exception as error:  # RuntimeError, and others for a header that was tampered with
            raise damaged(path, f"its pixels cannot be decoded ({error})") from error
    if not u.shape == v.shape == (part.data.height, part.data.width):
        raise damaged(path, f"its pixels cannot be decoded: they are of shape {u.shape}")
    return u, v
