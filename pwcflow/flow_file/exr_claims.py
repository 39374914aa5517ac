"""What an OpenEXR file of motion claims, checked: the library would make room for anything."""

import struct
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from pwcflow.errors import FlowFileError
from pwcflow.exr_header import (
    MAGIC,
    ExrCutShortError,
    ExrDamagedError,
    ExrDeepError,
    ExrPart,
    parts_of,
)
from pwcflow.flow_file.checks import (
    check_deflated,
    check_length,
    check_sides,
    cut_short,
    damaged,
    size_of,
)

CHANNELS = {
    "forward": ("forward.u", "forward.v"),
    "backward": ("backward.u", "backward.v"),
}
"""The names of u and v in each direction."""
_MOTION_CHANNELS = {name for pair in CHANNELS.values() for name in pair}
_MOST_HEADERS = 1 << 14  # are not longer than this
_LONGEST_HEADER = 1 << 22  # previews and the tables of mattes are in it
_MAX_PIXELS = 1 << 28
_MAX_EMPTY_PIXELS = 1 << 25  # that may be displayed around the data; a frame of 8K has fewer
_BYTES = {1: 2, 2: 4}  # half and float; 0 is unsigned integers
_DEFLATED = (1, 2, 3, 5)  # RLE packs less than zlib


def checked_parts(path: Path, file: BinaryIO) -> list[ExrPart]:
    """Return what a file holds, of one part or of several; `FlowFileError` for damage."""
    data = file.read(_MOST_HEADERS)
    size = size_of(file)
    if data[:4] != MAGIC[: len(data)] or not data:
        raise FlowFileError(
            f"{path} is not an OpenEXR file: its first four bytes are others; "
            "check where it came from"
        )
    try:
        with suppress(ExrCutShortError):
            return parts_of(data)
        return parts_of(data + file.read(_LONGEST_HEADER - len(data)))
    except ExrCutShortError as error:
        raise cut_short(path, str(error), size) from error
    except ExrDamagedError as error:
        raise damaged(path, error) from error
    except ExrDeepError as error:
        raise FlowFileError(f"{path} holds deep pixels, which no flow has; save it flat") from error


def check_sizes(path: Path, part: ExrPart, file: BinaryIO, size: int) -> None:
    """Raise unless the file can hold the pixels that a part claims, and has all its blocks."""
    _, _, width, height = part.data
    _, _, shown_width, shown_height = part.display
    check_sides(path, width, height)
    check_sides(path, shown_width, shown_height)
    claim = f"{width} x {height} pixels"
    if width * height > _MAX_PIXELS:
        raise damaged(path, f"its header says {claim}, and {_MAX_PIXELS} is the most")
    if shown_width * shown_height > max(width * height, _MAX_EMPTY_PIXELS):
        around = f"{shown_width} x {shown_height} pixels around {claim}"
        raise damaged(path, f"its header says {around}, and {_MAX_EMPTY_PIXELS} is the most")
    for name, (kind, across, down) in part.channels.items():
        if name in _MOTION_CHANNELS and (kind not in _BYTES or (across, down) != (1, 1)):
            raise FlowFileError(
                f"{path}: its channel {name} holds integers or fewer pixels than the image; "
                "save it as half or float at full size"
            )
    raw = height * width * sum(_BYTES.get(kind, 4) for kind, _, _ in part.channels.values())
    if part.compression in _DEFLATED:
        check_deflated(path, claim, raw, size)
    elif part.compression == 0 and raw > size:
        check_length(path, claim, raw, size)
    rows = part.rows_in_block  # a newer compression is left to the library
    if part.tile is None and not part.is_one_of_several and rows:
        _check_blocks(path, file, part, -(-height // rows), size)


def check_end(path: Path, part: ExrPart, file: BinaryIO, size: int) -> None:
    """Raise unless the last block of rows is the end of the file; those between are not looked at.

    Of a single part in scan lines, compressed by ZIP: the checksum at its end is not 0. Source:
    RFC 1950, section 2.2.
    """
    rows = part.rows_in_block or 1
    blocks = -(-part.data.height // rows)
    if part.tile or part.is_one_of_several or blocks < 1 or part.table + 8 * blocks > size:
        raise damaged(path, "its blocks of pixels are not those of a flow")
    file.seek(part.table)
    positions = struct.unpack(f"<{blocks}Q", file.read(8 * blocks))
    if not part.table + 8 * blocks <= min(positions) <= max(positions) <= size - 8:
        raise damaged(path, "its table of blocks of pixels tells of others than it has")
    file.seek(max(positions) + 4)
    (length,) = struct.unpack("<i", file.read(4))
    if max(positions) + 8 + length != size:
        raise cut_short(path, f"its last block of pixels has {length} bytes", size)
    file.seek(size - 4)
    unpacked = part.data.width * (part.data.height - (blocks - 1) * rows) * 4 * len(part.channels)
    if length < unpacked and not any(file.read(4)):
        raise damaged(path, "its last block of pixels ends in zeros")


def _check_blocks(path: Path, file: BinaryIO, part: ExrPart, blocks: int, size: int) -> None:
    """Raise unless each block of rows lies in the file, of a single part."""
    if part.table + 8 * blocks > size:
        raise cut_short(path, f"its {blocks} blocks need {part.table + 8 * blocks} bytes", size)
    file.seek(part.table)
    for (position,) in struct.iter_unpack("<Q", file.read(8 * blocks)):
        if not part.table + 8 * blocks <= position <= size - 8:
            raise cut_short(path, f"a block of its pixels is to be at {position}", size)
        file.seek(position + 4)
        (length,) = struct.unpack("<i", file.read(4))
        if length < 0 or position + 8 + length > size:
            raise cut_short(path, f"a block of its pixels ends at {position + 8 + length}", size)
