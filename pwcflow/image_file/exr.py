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
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from pwcflow.errors import ImageError
from pwcflow.exr_header import (
    COMPRESSIONS,
    ExrCutShortError,
    ExrDamagedError,
    ExrDeepError,
    ExrPart,
    ExrWindow,
    parts_of,
)
from pwcflow.image_file.damage import check_size, cut_short
from pwcflow.openexr_log import quiet_openexr

_Bytes: TypeAlias = npt.NDArray[np.uint8]

_LARGEST_GAIN = 1100  # of zlib and of runs: more is damage
_DTYPES = (np.dtype("<u4"), np.dtype("<f2"), np.dtype("<f4"))
_NONE, _RLE, _ZIPS, _ZIP = range(4)  # what is unpacked here


def decode_exr(path: Path, data: bytes) -> dict[str, npt.NDArray[np.float32]]:
    """Return the channels of the picture that is to be displayed, each (H, W), 0 where not stored.

    Raises:
        ImageError: the file is damaged, cut short, too large, or of a kind that is not read.
    """
    try:
        part = _first_part(path, data)
        is_known = part.compression <= _ZIP
        stored = _stored(path, data, part) if is_known else _by_library(path, part)
    except struct.error as error:
        raise cut_short(path, "EXR", f"it ends after {len(data)} bytes") from error
    except (ExrDamagedError, zlib.error, ValueError, IndexError, OverflowError) as error:
        raise ImageError(f"{path} is damaged; make or copy the EXR file again") from error
    return {name: _displayed(values, part) for name, values in stored.items()}


def _first_part(path: Path, data: bytes) -> ExrPart:
    try:
        part = parts_of(data)[0]
    except ExrCutShortError as error:
        raise cut_short(path, "EXR", f"{error}, but it ends after {len(data)} bytes") from error
    except ExrDeepError:
        _refuse(path, "deep pixels", "flatten it")
    for window in (part.data, part.display):
        if min(window.width, window.height) < 1:
            raise ValueError(window)
        check_size(path, window.width, window.height)
    return part


def _dtypes(part: ExrPart) -> dict[str, np.dtype[Any]]:
    return {name: _DTYPES[channel.kind] for name, channel in part.channels.items()}


def _stored(path: Path, data: bytes, part: ExrPart) -> dict[str, npt.NDArray[Any]]:
    """Return the channels where they are stored."""
    if any((channel.across, channel.down) != (1, 1) for channel in part.channels.values()):
        _refuse(path, "channels of less than its resolution", "save it as RGB")
    dtypes = _dtypes(part)
    window = part.data
    pixel_bytes = sum(dtype.itemsize for dtype in dtypes.values())
    if window.width * window.height * pixel_bytes > _LARGEST_GAIN * len(data):
        raise ValueError(window)
    shape = window.height, window.width
    stored = {name: np.empty(shape, dtype) for name, dtype in dtypes.items()}
    for index, (left, top, width, height) in enumerate(_blocks(part)):
        (offset,) = struct.unpack_from("<Q", data, part.table + 8 * index)
        if offset < part.table:  # 0 where a writer was interrupted
            raise cut_short(path, "EXR", f"its block {index} is missing")
        start, size = _block_at(data, offset + 4 * part.is_one_of_several, part, left, top)
        if start + size > len(data):
            raise cut_short(path, "EXR", f"{start + size} bytes or more are needed")
        block = data[start : start + size]
        rows = _unpacked(block, part.compression, width * height * pixel_bytes)
        rows = rows.reshape(height, -1)
        position = 0
        for name, dtype in dtypes.items():
            end = position + width * dtype.itemsize
            values = np.ascontiguousarray(rows[:, position:end]).view(dtype)
            stored[name][top : top + height, left : left + width] = values
            position = end
    return stored


def _by_library(path: Path, part: ExrPart) -> dict[str, npt.NDArray[Any]]:
    name = dict(enumerate(COMPRESSIONS)).get(part.compression, "an unknown way")
    if part.is_one_of_several:  # the library would decode all of them, whatever they claim
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
    shape = part.data.height, part.data.width
    if any(values.shape != shape for values in channels.values()):
        _refuse(path, "channels of less than its resolution", "save it as RGB")
    return channels


def _block_at(data: bytes, offset: int, part: ExrPart, left: int, top: int) -> tuple[int, int]:
    """Return (start, bytes) of the pixels of a block that must begin at (left, top)."""
    if part.tile is None:
        y, size = struct.unpack_from("<2i", data, offset)
        place, wanted, start = (0, y - part.data.top, 0, 0), (0, top, 0, 0), offset + 8
    else:
        across, down, *level, size = struct.unpack_from("<5i", data, offset)
        place = across * part.tile[0], down * part.tile[1], *level
        wanted, start = (left, top, 0, 0), offset + 20
    if place != wanted or size < 0:
        raise ValueError(place)
    return start, size


def _blocks(part: ExrPart) -> Iterator[ExrWindow]:
    """Yield what the blocks cover, in the order of their table, from the data window's corner."""
    window = part.data
    rows = part.rows_in_block
    assert rows, "what is unpacked here is known"
    across, down = part.tile or (window.width, rows)
    for top in range(0, window.height, down):
        for left in range(0, window.width, across):
            width, height = min(across, window.width - left), min(down, window.height - top)
            yield ExrWindow(left, top, width, height)


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


def _displayed(stored: npt.NDArray[Any], part: ExrPart) -> npt.NDArray[np.float32]:
    if part.data == part.display:
        return stored.astype(np.float32)
    image = np.zeros((part.display.height, part.display.width), np.float32)
    rows, columns = part.rows, part.columns
    image[rows.in_display, columns.in_display] = stored[rows.in_data, columns.in_data]
    return image


def _refuse(path: Path, what: str, remedy: str) -> NoReturn:
    raise ImageError(f"{path} holds {what}, which is not read; {remedy}")
