"""The header of an OpenEXR file: what the file claims, before anything is decoded or made room for.

Source: openexr.com, "OpenEXR File Layout".
"""

import struct
from typing import NamedTuple

MAGIC = b"\x76\x2f\x31\x01"
_TILED, _LONG_NAMES, _DEEP, _MULTI_PART = 0x200, 0x400, 0x800, 0x1000
_KNOWN_FLAGS = _TILED | _LONG_NAMES | _DEEP | _MULTI_PART
COMPRESSIONS = {
    "none": 1, "RLE": 1, "ZIPS": 1, "ZIP": 16, "PIZ": 32,
    "PXR24": 16, "B44": 32, "B44A": 32, "DWAA": 32, "DWAB": 256,
}  # fmt: skip
"""How many rows of scan lines a block holds, by the names of `ExrPart.compression` 0, 1, ..."""
_WANTED = (("compression", 1), ("dataWindow", 16), ("displayWindow", 16))


class ExrCutShortError(Exception):
    """The file ends within its header; `str` says where."""


class ExrDamagedError(Exception):
    """The header contradicts itself; `str` says how."""


class ExrDeepError(Exception):
    """The file holds several values a pixel."""


class ExrChannel(NamedTuple):
    """How the numbers of a channel are stored."""

    kind: int
    """0 is unsigned integers, 1 half, 2 float."""
    across: int
    down: int
    """Pixels for each number."""


class ExrWindow(NamedTuple):
    """A rectangle of pixels; sides may be 0 or less where a file is damaged."""

    left: int
    top: int
    width: int
    height: int


class Overlap(NamedTuple):
    """What of one axis of the display window has data, and which."""

    in_display: slice
    in_data: slice


class ExrPart(NamedTuple):
    """An image of a file."""

    channels: dict[str, ExrChannel]
    """By name, in the order in which they are stored."""
    compression: int
    """Its place in COMPRESSIONS; one beyond them is newer."""
    data: ExrWindow
    """Which pixels are stored."""
    display: ExrWindow
    """Which are the picture."""
    tile: tuple[int, int] | None
    """Width and height; None for scan lines."""
    is_one_of_several: bool
    table: int
    """Where the table of block positions begins, if this is the first part."""
    attributes: dict[str, bytes]

    @property
    def rows_in_block(self) -> int | None:
        """How many rows of scan lines a block holds; None where the compression is newer."""
        return dict(enumerate(COMPRESSIONS.values())).get(self.compression)

    @property
    def rows(self) -> Overlap:
        """The rows of the display window that have data."""
        return _overlap(self.display.top, self.display.height, self.data.top, self.data.height)

    @property
    def columns(self) -> Overlap:
        """The columns of the display window that have data."""
        return _overlap(self.display.left, self.display.width, self.data.left, self.data.width)

    def text(self, name: str) -> str:
        """Return a text attribute, empty where there is none."""
        return self.attributes.get(name, b"").decode("utf-8", "replace")


def parts_of(data: bytes) -> list[ExrPart]:
    """Return what a file holds, of one part or of several.

    Args:
        data: the file from its start, which has MAGIC, to beyond its header.

    Raises:
        ExrCutShortError, ExrDamagedError, ExrDeepError: as they say.
    """
    if len(data) < 8:
        raise ExrCutShortError("its version needs 8 bytes")
    (version,) = struct.unpack_from("<I", data, 4)
    if version & 0xFF != 2 or version & ~(0xFF | _KNOWN_FLAGS):
        raise ExrDamagedError(
            f"it says that it is of version {version:#x} of OpenEXR, and not of 2"
        )
    if version & _DEEP:
        raise ExrDeepError
    several = bool(version & _MULTI_PART)
    try:
        headers, end = _headers(data, several=several)
        return [_part(header, bool(version & _TILED), several, end) for header in headers]
    except (IndexError, struct.error) as error:
        raise ExrCutShortError("its header goes on") from error
    except (ValueError, KeyError) as error:
        raise ExrDamagedError(f"its header cannot be read ({error})") from error


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
        if not (several and attributes):
            return headers, position


def _part(attributes: dict[str, bytes], tiled: bool, several: bool, end: int) -> ExrPart:
    for name, length in _WANTED:
        if len(attributes.get(name, b"")) != length:
            raise ExrDamagedError(f"its header lacks '{name}'")
    kind = attributes.get("type", b"")
    if kind.startswith(b"deep"):
        raise ExrDeepError
    tile = None
    if tiled or kind == b"tiledimage":
        tile = struct.unpack_from("<II", attributes["tiles"])
        if not 0 < min(tile) <= max(tile) < 1 << 16:
            raise ValueError("the size of tiles")
    return ExrPart(
        _channels(attributes["channels"]),
        attributes["compression"][0],
        _window(attributes["dataWindow"]),
        _window(attributes["displayWindow"]),
        tile,
        several,
        end,
        attributes,
    )


def _channels(data: bytes) -> dict[str, ExrChannel]:
    """Return the list of channels: its end is an empty name."""
    channels = {}
    position = 0
    while position < len(data) and data[position]:
        name, position = _name(data, position)
        if position + 16 > len(data):
            raise ValueError("the list of channels")
        channels[name] = ExrChannel(*struct.unpack_from("<I4xii", data, position))
        position += 16
    return channels


def _window(box: bytes) -> ExrWindow:
    left, top, right, bottom = struct.unpack("<4i", box)
    return ExrWindow(left, top, right - left + 1, bottom - top + 1)


def _name(data: bytes, position: int) -> tuple[str, int]:
    end = data.find(b"\0", position)
    if end < 0:
        raise IndexError
    return data[position:end].decode("utf-8"), end + 1


def _overlap(display: int, display_length: int, data: int, data_length: int) -> Overlap:
    """Return the overlap of two spans, each given by its first pixel and its length."""
    first = max(display, data)
    length = max(0, min(display + display_length, data + data_length) - first)
    if length == 0:
        return Overlap(slice(0, 0), slice(0, 0))
    in_display, in_data = first - display, first - data
    return Overlap(slice(in_display, in_display + length), slice(in_data, in_data + length))
