""".exr with motion vectors in the channels `forward.u` and `forward.v`, half or float.

These are the names and the directions of compositing programs: in pixels to the next frame, u to
the right and v UP, so v changes its sign on the way. Source: "Working with Channels and Layers" of
Foundry's Nuke Python guide. The library is the format's own, OpenEXR: OpenCV's is off unless an
environment variable is set, reads three or four channels, and cannot name them.
"""

import json
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pwcflow.atomic_file import replacing
from pwcflow.errors import FlowFileError, OutputError
from pwcflow.exr_header import ExrPart
from pwcflow.flow_file.checks import Metadata, damaged, import_package, size_of
from pwcflow.flow_file.exr_claims import check_sizes, checked_parts
from pwcflow.flow_file.field import Flow, as_flow
from pwcflow.flow_file.npz import metadata_from
from pwcflow.openexr_log import quiet_openexr

PACKAGE, EXTRA = "OpenEXR", "exr"
_U, _V = "forward.u", "forward.v"
_METADATA = "pwcflow"


def read(path: Path, file: BinaryIO) -> Flow:
    """Return the flow of the whole display window, (H, W, 2), NaN where no data lies in it."""
    parts = checked_parts(path, file)
    part = _part_with_flow(path, parts)
    for each in parts:  # the library decodes all
        check_sizes(path, each, file, size_of(file))
    library = import_package(path, PACKAGE, EXTRA)
    u, v = _decoded(path, library, parts.index(part), part)
    flow = np.full((part.display.height, part.display.width, 2), np.nan, np.float32)
    rows, columns = part.rows, part.columns
    held = np.stack([as_flow(u), -as_flow(v)], -1)
    flow[rows.in_display, columns.in_display] = held[rows.in_data, columns.in_data]
    return flow


def read_metadata(path: Path, file: BinaryIO) -> Metadata:
    """Return what `write` was given; nothing where a file has no such attribute."""
    part = _part_with_flow(path, checked_parts(path, file))
    return metadata_from(part.text(_METADATA))


def write(path: Path, flow: Flow, metadata: Metadata) -> int:
    """Write every value as it is, as floats compressed by ZIP, and the metadata as an attribute."""
    library = import_package(path, PACKAGE, EXTRA)
    header = {"compression": library.ZIP_COMPRESSION, "type": library.scanlineimage}
    if metadata:
        header[_METADATA] = json.dumps(metadata)
    channels = {_U: np.ascontiguousarray(flow[..., 0]), _V: np.ascontiguousarray(-flow[..., 1])}
    with replacing(path) as temporary, quiet_openexr():
        try:
            library.File(header, channels).write(str(temporary))
        except RuntimeError as error:
            raise OutputError(f"cannot write {path}: {error}; check the disk") from error
    return 0


def _part_with_flow(path: Path, parts: list[ExrPart]) -> ExrPart:
    for part in parts:
        if {_U, _V} <= part.channels.keys():
            return part
    held = ", ".join(name for part in parts for name in part.channels)[:200] or "nothing"
    raise FlowFileError(
        f"{path} holds the channels {held}, but not {_U} and {_V}; rename those that are motion in "
        "pixels to the next frame"
    )


def _decoded(path: Path, library: Any, index: int, part: ExrPart) -> tuple[Any, Any]:
    """Return u and v of the data window; what the library cannot decode it leaves out."""
    with quiet_openexr():
        try:
            with library.File(str(path), separate_channels=True) as image:
                channels = image.parts[index].channels
                u, v = (np.array(channels[name].pixels) for name in (_U, _V))
        except MemoryError:
            raise
        except Exception as error:  # RuntimeError, and others for a header that was tampered with
            raise damaged(path, f"its pixels cannot be decoded ({error})") from error
    if not u.shape == v.shape == (part.data.height, part.data.width):
        raise damaged(path, f"its pixels cannot be decoded: they are of shape {u.shape}")
    return u, v
