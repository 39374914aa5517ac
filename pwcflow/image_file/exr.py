"""OpenEXR files: channels of floats, by name. OpenCV's wheels have no EXR, or switch it off.

Read are scan lines and tiles, compressed by ZIP, ZIPS or RLE or not at all, and the first part of
several; what is compressed in other ways, by the package OpenEXR where it is installed. Source: the
OpenEXR file layout, openexr.com.
"""

import struct
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from pwcflow.errors import ImageError
from pwcflow.image_file.damage import check_size, cut_short
from pwcflow.openexr_log import quiet_openexr

MAGIC = b"v/1\x01"

_Bytes: TypeAlias = npt.NDArray[np.uint8]

_TILED, _DEEP, _PARTS = 0x200, 0x800, 0x1000
_LARGEST_GAIN = 1100  # of zlib and of runs: more is damage
_DTYPES = (np.dtype("<u4"), np.dtype("<f2"), np.dtype("<f4"))
_COMPRESSIONS = ("none", "RLE", "ZIPS", "ZIP", "PIZ", "PXR24", "B44", "B44A", "DWAA", "DWAB")
_NONE, _RLE, _ZIPS, _ZIP = range(4)
_ROWS = {_NONE: 1, _RLE: 1, _ZIPS: 1, _ZIP: 16}  # that a block of scan lines holds


class _Channel(NamedTuple):
    name: str
    dtype: np.dtype[Any]
    step: tuple[int, int]  # pixels for each number, across and down


class _Window(NamedTuple):
    left: int
    top: int
    width: int
    height: int


class _Header(NamedTuple):
    channels: list[_Channel]
    compression: int
    data: _Window  # which pixels are stored
    display: _Window  # which are the picture
    tile: tuple[int, int] | None
    parts: bool
    offsets: int  # where the table of blocks begins


def decode_exr(path: Path, data: bytes) -> dict[str, npt.NDArray[np.float32]]:
    """Return the channels of the picture that is to be displayed, each (H, W), 0 where not stored.

    Raises:
        ImageError: the file is damaged, cut short, too large, or of a kind that is not read.
    """
    try:
        header = _header(path, data)
        check_size(path, header.data.width, header.data.height)
        check_size(path, header.display.width, header.display.height)
        if header.compression in _ROWS:
            stored = _stored(path, data, header)
        else:
            stored = _by_library(path, header)
    except struct.error as error:
        raise cut_short(path, "EXR", f"it ends after {len(data)} bytes") from error
    except (zlib.error, ValueError, IndexError, KeyError, OverflowError) as error:
        raise ImageError(f"{path} is damaged; make or copy the EXR file again") from error
    return {name: _displayed(values, header) for name, values in stored.items()}


def _header(path: Path, data: bytes) -> _Header:
    (flags,) = struct.unpack_from("<I", data, 4)
    if flags & _DEEP:
        _refuse(path, "deep pixels", "flatten it")
    attributes, end = _attributes(data, 8)
    if flags & _PARTS:
        after = end
        while data[after : after + 1] != b"\0":
            _, after = _attributes(data, after)
        end = after + 1
    compression = attributes["compression"][0]
    tile = None
    if "tiles" in attributes and (flags & (_TILED | _PARTS)):
        tile = struct.unpack_from("<II", attributes["tiles"])
        if not 0 < min(tile) <= max(tile) < 1 << 16:
            raise ValueError(tile)
    return _Header(
        list(_channels(attributes["channels"])),
        compression,
        _window(attributes["dataWindow"]),
        _window(attributes["displayWindow"]),
        tile,
        bool(flags & _PARTS),
        end,
    )


def _attributes(data: bytes, position: int) -> tuple[dict[str, bytes], int]:
    """Return the wanted attributes of a header, and where it ends."""
    attributes = {}
    while data[position : position + 1] != b"\0":
        name, position = _text(data, position)
        _, position = _text(data, position)
        (size,) = struct.unpack_from("<I", data, position)
        attributes[name] = data[position + 4 : position + 4 + size]
        position += 4 + size
    return attributes, position + 1


def _text(data: bytes, position: int) -> tuple[str, int]:
    end = data.find(b"\0", position, position + 256)
    if end < 0:
        raise struct.error
    return data[position:end].decode("utf-8", "replace"), end + 1


def _window(box: bytes) -> _Window:
    left, top, right, bottom = struct.unpack("<4i", box)
    if right < left or bottom < top:
        raise ValueError(box)
    return _Window(left, top, right - left + 1, bottom - top + 1)


def _channels(listed: bytes) -> Iterator[_Channel]:
    position = 0
    while listed[position : position + 1] != b"\0":
        name, position = _text(listed, position)
        kind, across, down = struct.unpack_from("<I4xII", listed, position)
        yield _Channel(name, _DTYPES[kind], (across, down))
        position += 16


def _stored(path: Path, data: bytes, header: _Header) -> dict[str, npt.NDArray[Any]]:
    """Return the channels where they are stored."""
    if any(channel.step != (1, 1) for channel in header.channels):
        _refuse(path, "channels of less than its resolution", "save it as RGB")
    window = header.data
    pixel_bytes = sum(channel.dtype.itemsize for channel in header.channels)
    if window.width * window.height * pixel_bytes > _LARGEST_GAIN * len(data):
        raise ValueError(window)
    shape = window.height, window.width
    stored = {channel.name: np.empty(shape, channel.dtype) for channel in header.channels}
    for index, (left, top, width, height) in enumerate(_blocks(header)):
        (offset,) = struct.unpack_from("<Q", data, header.offsets + 8 * index)
        if offset < header.offsets:  # 0 where a writer was interrupted
            raise cut_short(path, "EXR", f"its block {index} is missing")
        start, size = _block_at(data, offset + 4 * header.parts, header, left, top)
        if start + size > len(data):
            raise cut_short(path, "EXR", f"{start + size} bytes or more are needed")
        block = data[start : start + size]
        rows = _unpacked(block, header.compression, width * height * pixel_bytes)
        rows = rows.reshape(height, -1)
        position = 0
        for channel in header.channels:
            end = position + width * channel.dtype.itemsize
            values = np.ascontiguousarray(rows[:, position:end]).view(channel.dtype)
            stored[channel.name][top : top + height, left : left + width] = values
            position = end
    return stored


def _by_library(path: Path, header: _Header) -> dict[str, npt.NDArray[Any]]:
    names = _COMPRESSIONS
    name = names[header.compression] if header.compression < len(names) else "an unknown way"
    if header.parts:  # the library would decode all of them, whatever they claim
        _refuse(path, f"several parts compressed by {name}", "save it with ZIP compression")
    try:
        library = import_module("OpenEXR")
    except ImportError as error:
        raise ImageError(
            f"{path} holds pixels compressed by {name}, which takes the package OpenEXR; "
            "pip install 'pwcflow[exr]', or save it with ZIP compression"
        ) from error
    try:
        with (
            quiet_openexr(),
            library.File(str(path), separate_channels=True, num_threads=0) as image,
        ):
            channels = {name: np.array(each.pixels) for name, each in image.channels().items()}
    except Exception as error:
        raise ValueError(name) from error
    shape = header.data.height, header.data.width
    if any(values.shape != shape for values in channels.values()):
        _refuse(path, "channels of less than its resolution", "save it as RGB")
    return channels


def _block_at(data: bytes, offset: int, header: _Header, left: int, top: int) -> tuple[int, int]:
    """Return (start, bytes) of the pixels of a block that must begin at (left, top)."""
    if header.tile is None:
        y, size = struct.unpack_from("<2i", data, offset)
        place, wanted, start = (0, y - header.data.top, 0, 0), (0, top, 0, 0), offset + 8
    else:
        across, down, *level, size = struct.unpack_from("<5i", data, offset)
        place = across * header.tile[0], down * header.tile[1], *level
        wanted, start = (left, top, 0, 0), offset + 20
    if place != wanted or size < 0:
        raise ValueError(place)
    return start, size


def _blocks(header: _Header) -> Iterator[_Window]:
    """Yield what the blocks cover, in the order of their table, from the data window's corner."""
    window = header.data
    across, down = header.tile or (window.width, _ROWS[header.compression])
    for top in range(0, window.height, down):
        for left in range(0, window.width, across):
            width, height = min(across, window.width - left), min(down, window.height - top)
            yield _Window(left, top, width, height)


def _unpacked(block: bytes, compression: int, count: int) -> _Bytes:
    """Return `count` bytes of a block, or ValueError."""
    if len(block) == count:  # where compression would gain nothing
        return np.frombuffer(block, np.uint8)
    if compression == _NONE:
        raise ValueError(len(block))
    if compression == _RLE:
        unpacked = _runs(block, count)
    else:
        unpacked = zlib.decompressobj().decompress(block, count)
    if len(unpacked) != count:
        raise ValueError(len(unpacked))
    differences = np.frombuffer(unpacked, np.uint8).copy()
    differences[1:] -= 128
    halves = np.cumsum(differences, dtype=np.uint8)
    result = np.empty_like(halves)
    result[0::2], result[1::2] = np.split(halves, [(count + 1) // 2])
    return result


def _runs(block: bytes, count: int) -> bytes:
    unpacked = bytearray()
    position = 0
    while position < len(block) and len(unpacked) < count:
        length = block[position]
        if length > 127:  # as it is
            unpacked += block[position + 1 : position + 1 + 256 - length]
            position += 1 + 256 - length
        else:
            unpacked += block[position + 1 : position + 2] * (length + 1)
            position += 2
    return bytes(unpacked)


def _displayed(stored: npt.NDArray[Any], header: _Header) -> npt.NDArray[np.float32]:
    data, display = header.data, header.display
    if data == display:
        return stored.astype(np.float32)
    image = np.zeros((display.height, display.width), np.float32)
    top, left = (max(display.top, data.top), max(display.left, data.left))
    bottom = min(display.top + display.height, data.top + data.height)
    right = min(display.left + display.width, data.left + data.width)
    if top < bottom and left < right:
        inside = stored[top - data.top : bottom - data.top, left - data.left : right - data.left]
        at_row, at_column = top - display.top, left - display.left
        image[at_row : at_row + bottom - top, at_column : at_column + right - left] = inside
    return image


def _refuse(path: Path, what: str, remedy: str) -> NoReturn:
    raise ImageError(f"{path} holds {what}, which is not read; {remedy}")
