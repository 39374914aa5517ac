"""How a camera was held, as image files tell it, and pictures turned upright."""

import re
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

UPRIGHT = 1
_ORIENTATION = 274
_SHORT = 3
_EXIF = b"Exif\0\0"
_JPEG_MARKER = re.compile(rb"\xff+([^\x00\xff])")
_JPEG_EXIF, _JPEG_SCAN = 0xE1, 0xDA
_AVIF = re.compile(rb"....ftypavi[fs]", re.DOTALL)
_AVIF_ROTATION = re.compile(rb"\0\0\0\x09irot(.)", re.DOTALL)  # quarter turns to the left
_AVIF_MIRROR = re.compile(rb"\0\0\0\x09imir(.)", re.DOTALL)  # after it: 0 swaps top and bottom
_AVIF_ORIENTATIONS = {
    (0, None): 1, (0, 1): 2, (2, None): 3, (0, 0): 4, (1, 0): 5, (3, None): 6, (1, 1): 7,
    (1, None): 8, (2, 0): 2, (2, 1): 4, (3, 0): 7, (3, 1): 5,
}  # fmt: skip


def orientation_of(data: bytes) -> int:
    """Return the orientation, 1 to 8, of a JPEG, PNG, WebP or AVIF; 1 where there is none."""
    if _AVIF.match(data):  # by whose standard EXIF does not decide
        return _avif_orientation(data)
    for block in _exif_blocks(data):
        orientation = _orientation_in(block.removeprefix(_EXIF))
        if 1 <= orientation <= 8:
            return orientation
    return UPRIGHT


def upright(image: npt.NDArray[Any], orientation: int) -> npt.NDArray[Any]:
    """Return a stored picture (H, W, ...) as a person should see it, by the EXIF standard."""
    if orientation in (5, 6, 7, 8):  # rows are stored as columns
        image = image.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):  # the first row is at the bottom
        image = image[::-1]
    if orientation in (2, 3, 6, 7):  # the first column is on the right
        image = image[:, ::-1]
    return np.ascontiguousarray(image)


def _exif_blocks(data: bytes) -> Iterator[bytes]:
    if data.startswith(b"\x89PNG"):
        yield from _chunks(data, 8, ">I4s", b"eXIf", trailer=4)
    elif data.startswith(b"RIFF"):
        yield from _chunks(data, 12, "<4sI", b"EXIF", trailer=0)
    elif data.startswith(b"\xff\xd8"):
        yield from _jpeg_exif_blocks(data)


def _chunks(data: bytes, start: int, head: str, wanted: bytes, *, trailer: int) -> Iterator[bytes]:
    """Yield the bodies of one kind of chunk; `head` is how struct unpacks a chunk's."""
    while start + 8 <= len(data):
        fields = struct.unpack_from(head, data, start)
        length, kind = fields if isinstance(fields[0], int) else fields[::-1]
        if kind == wanted:
            yield data[start + 8 : start + 8 + length]
        start += 8 + length + trailer
        if not trailer:  # those of a RIFF begin at even places
            start += length % 2


def _avif_orientation(data: bytes) -> int:
    head = data[: data.find(b"mdat")]  # pixels follow
    rotation, mirror = _AVIF_ROTATION.search(head), _AVIF_MIRROR.search(head)
    turns = rotation[1][0] & 3 if rotation else 0
    return _AVIF_ORIENTATIONS[turns, mirror[1][0] & 1 if mirror else None]


def _jpeg_exif_blocks(data: bytes) -> Iterator[bytes]:
    position = 2
    while match := _JPEG_MARKER.search(data, position):
        marker, start = match[1][0], match.end()
        length = int.from_bytes(data[start : start + 2], "big")
        if marker == _JPEG_SCAN:
            return
        if marker == _JPEG_EXIF and data.startswith(_EXIF, start + 2):
            yield data[start + 2 : start + length]
        position = start + length


def _orientation_in(exif: bytes) -> int:
    """Return the value of the tag Orientation; 0 where there is none."""
    order = "<" if exif[:2] == b"II" else ">"
    try:
        (table,) = struct.unpack_from(order + "I", exif, 4)
        (count,) = struct.unpack_from(order + "H", exif, table)
        for entry in range(table + 2, table + 2 + count * 12, 12):
            tag, kind, _, value = struct.unpack_from(order + "HHIH", exif, entry)
            if tag == _ORIENTATION and kind == _SHORT:
                return int(value)
    except struct.error:
        pass
    return 0
