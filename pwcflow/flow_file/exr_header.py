"""The header of an OpenEXR file: the library would make room for whatever it claims.

Source: openexr.com, "OpenEXR File Layout".
"""

import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pwcflow.errors import FlowFileError
from pwcflow.flow_file.checks import (
    check_deflated,
    check_length,
    check_sides,
    cut_short,
    damaged,
    size_of,
)

_MAGIC = b"\x76\x2f\x31\x01"
_TILED, _LONG_NAMES, _DEEP, _MULTI_PART = 0x200, 0x400, 0x800, 0x1000
_LONGEST_HEADER = 1 << 22  # previews and the tables of mattes are in it
_MAX_PIXELS = 1 << 28
_MAX_EMPTY_PIXELS = 1 << 25  # that may be displayed around the data; a frame of 8K has fewer
_BYTES = {1: 2, 2: 4}  # half and float; 0 is unsigned integers
# How many rows a block of each compression holds: none, RLE, ZIPS, ZIP, PIZ, PXR24, B44, B44A, DWAA
# and DWAB. Those after are newer; they are left to the library.
_ROWS = (1, 1, 1, 16, 32, 16, 32, 32, 32, 256)
_DEFLATED = (1, 2, 3, 5)  # RLE packs less than zlib


class Overlap(NamedTuple):
    """What of one axis of the display window has data, and which."""

    in_display: slice
    in_data: slice


class ExrPart(NamedTuple):
    """An image of a file."""

    channels: dict[str, tuple[int, int, int]]
    """Type of pixel, and horizontal and vertical sampling, by name."""
    compression: int
    data: tuple[int, int, int, int]
    """Left, top, right and bottom, inclusive."""
    display: tuple[int, int, int, int]
    tiled: bool
    table: int
    """Where the table of block positions begins."""
    attributes: dict[str, bytes]

    @property
    def width(self) -> int:
        """That of the display window."""
        return self.display[2] - self.display[0] + 1

    @property
    def height(self) -> int:
        """That of the display window."""
        return self.display[3] - self.display[1] + 1

    @property
    def data_shape(self) -> tuple[int, int]:
        """Height and width of the data window."""
        left, top, right, bottom = self.data
        return bottom - top + 1, right - left + 1

    @property
    def rows(self) -> Overlap:
        """The rows of the display window that have data."""
        return _overlap(self.display[1::2], self.data[1::2])

    @property
    def columns(self) -> Overlap:
        """The columns of the display window that have data."""
        return _overlap(self.display[::2], self.data[::2])

    def text(self, name: str) -> str:
        """Return a text attribute, empty where there is none."""
        return self.attributes.get(name, b"").decode("utf-8", "replace")


def parts_of(path: Path, file: BinaryIO) -> list[ExrPart]:
    """Return what a file holds, of one part or of several; `FlowFileError` for damage."""
    data = file.read(_LONGEST_HEADER)
    size = size_of(file)
    if data[:4] != _MAGIC[: len(data)] or not data:
        raise FlowFileError(
            f"{path} is not an OpenEXR file: its first four bytes are others; "
            "check where it came from"
        )
    if len(data) < 8:
        raise cut_short(path, "its version needs 8 bytes", size)
    (version,) = struct.unpack_from("<I", data, 4)
    if version & 0xFF != 2 or version & ~(0xFF | _TILED | _LONG_NAMES | _DEEP | _MULTI_PART):
        raise damaged(path, f"it says that it is of version {version:#x} of OpenEXR, and not of 2")
    if version & _DEEP:
        raise FlowFileError(f"{path} holds deep pixels, which no flow has; save it flat")
    try:
        headers, end = _headers(data, several=bool(version & _MULTI_PART))
        return [_part(path, header, bool(version & _TILED), end) for header in headers]
    except (IndexError, struct.error) as error:
        raise cut_short(path, "its header goes on", size) from error
    except (ValueError, KeyError) as error:
        raise damaged(path, f"its header cannot be read ({error})") from error


def check_sizes(path: Path, part: ExrPart, file: BinaryIO, size: int) -> None:
    """Raise unless the file can hold the pixels that a part claims, and has all its blocks."""
    height, width = part.data_shape
    check_sides(path, width, height)
    check_sides(path, part.width, part.height)
    claim = f"{width} x {height} pixels"
    if width * height > _MAX_PIXELS:
        raise damaged(path, f"its header says {claim}, and {_MAX_PIXELS} is the most")
    if part.width * part.height > max(width * height, _MAX_EMPTY_PIXELS):
        around = f"{part.width} x {part.height} pixels around {claim}"
        raise damaged(path, f"its header says {around}, and {_MAX_EMPTY_PIXELS} is the most")
    for name, (kind, across, down) in part.channels.items():
        if name.startswith("forward.") and (kind not in _BYTES or (across, down) != (1, 1)):
            raise FlowFileError(
                f"{path}: its channel {name} holds integers or fewer pixels than the image; "
                "save it as half or float at full size"
            )
    raw = height * width * sum(_BYTES.get(kind, 4) for kind, _, _ in part.channels.values())
    if part.compression in _DEFLATED:
        check_deflated(path, claim, raw, size)
    elif part.compression == 0 and raw > size:
        check_length(path, claim, raw, size)
    if not part.tiled and part.compression < len(_ROWS):
        _check_blocks(path, file, part, -(-height // _ROWS[part.compression]), size)


def _check_blocks(path: Path, file: BinaryIO, part: ExrPart, blocks: int, size: int) -> None:
    """Raise unless each block of rows lies in the file; only where there is a single part."""
    if part.table < 0:
        return
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


def _headers(data: bytes, *, several: bool) -> tuple[list[dict[str, bytes]], int]:
    """Return the attributes of each part by name, and where what follows begins."""
    headers: list[dict[str, bytes]] = []
    position = 8
    while True:
        attributes: dict[str, bytes] = {}
        while data[position]:
            name, position = _name(data, position)
            _, position = _name(data, position)
            (length,) = struct.unpack_from("<I", data, position)
            position += 4
            if position + length > len(data):
                raise IndexError
            attributes[name] = data[position : position + length]
            position += length
        position += 1
        if attributes:
            headers.append(attributes)
        if not several:
            return headers, position
        if not attributes:
            return headers, -1


def _part(path: Path, attributes: dict[str, bytes], tiled: bool, end: int) -> ExrPart:
    for name, length in (("compression", 1), ("dataWindow", 16), ("displayWindow", 16)):
        if len(attributes.get(name, b"")) != length:
            raise damaged(path, f"its header lacks '{name}'")
    kind = attributes.get("type", b"")
    if kind.startswith(b"deep"):
        raise FlowFileError(f"{path} holds deep pixels, which no flow has; save it flat")
    data, display = (
        struct.unpack("<4i", attributes[name]) for name in ("dataWindow", "displayWindow")
    )
    return ExrPart(
        _channels(attributes["channels"]),
        attributes["compression"][0],
        data,
        display,
        tiled or kind == b"tiledimage",
        end,
        attributes,
    )


def _channels(data: bytes) -> dict[str, tuple[int, int, int]]:
    """Return the list of channels: its end is an empty name."""
    channels = {}
    position = 0
    while position < len(data) and data[position]:
        name, position = _name(data, position)
        if position + 16 > len(data):
            raise ValueError("the list of channels")
        kind, _, across, down = struct.unpack_from("<4i", data, position)
        channels[name] = (kind, across, down)
        position += 16
    return channels


def _name(data: bytes, position: int) -> tuple[str, int]:
    end = data.find(b"\0", position)
    if end < 0:
        raise IndexError
    return data[position:end].decode("utf-8"), end + 1


def _overlap(display: tuple[int, ...], data: tuple[int, ...]) -> Overlap:
    first, last = max(display[0], data[0]), min(display[1], data[1]) + 1
    length = max(0, last - first)
    in_display, in_data = first - display[0], first - data[0]
    if length == 0:
        return Overlap(slice(0, 0), slice(0, 0))
    return Overlap(slice(in_display, in_display + length), slice(in_data, in_data + length))
