"""How many pictures an image file holds, and how long each of a WebP is shown."""

import os
import struct
from io import BytesIO
from typing import BinaryIO, NamedTuple

from pwcflow.image_file import tiff

_GIF_IMAGE, _GIF_EXTENSION, _GIF_END = b",", b"!", b";"
_WEBP_IS_ANIMATED = 0x02


class GifPictures(NamedTuple):
    """The pictures of a GIF, which may be cut off."""

    started: int
    whole: int
    """Those that are there to their last byte."""
    ended: bool
    """Whether the end mark is there."""


def picture_count(data: bytes) -> int:
    """Return how many pictures a whole TIFF, GIF, PNG or WebP holds; 1 for others."""
    if data.startswith(tiff.SIGNATURES):
        return len(tiff.pictures_of(data))
    if data.startswith(b"GIF8"):
        return gif_pictures(BytesIO(data)).started
    if data.startswith(b"\x89PNG"):
        return _png_pictures(data)
    if data.startswith(b"RIFF"):
        return len(webp_durations_ms(data)) or 1
    return 1


def gif_pictures(file: BinaryIO) -> GifPictures:
    """Count the pictures of a GIF, of which nothing is decoded."""
    file.seek(10)
    flags = file.read(1)
    file.seek(13 + _gif_colors(flags))
    started = whole = 0
    while kind := file.read(1):
        if kind == _GIF_END:
            return GifPictures(started, whole, True)
        if kind == _GIF_IMAGE:
            started += 1
            flags = file.read(9)[8:]
            file.seek(_gif_colors(flags) + 1, os.SEEK_CUR)
        elif kind == _GIF_EXTENSION:
            file.seek(1, os.SEEK_CUR)
        else:
            break
        while (length := file.read(1)) not in (b"", b"\0"):
            file.seek(length[0], os.SEEK_CUR)
        if not length:
            break
        whole += kind == _GIF_IMAGE
    return GifPictures(started, whole, False)


def webp_durations_ms(data: bytes) -> list[int]:
    """Return how long each picture of an animated WebP is shown; none for a still one.

    Source: developers.google.com, "WebP Container Specification": the chunk ANMF.
    """
    if data[12:16] != b"VP8X" or not data[20:21] or not data[20] & _WEBP_IS_ANIMATED:
        return []
    durations, start = [], 12
    while start + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, start)
        if kind == b"ANMF":
            durations.append(int.from_bytes(data[start + 20 : start + 23], "little"))
        start += 8 + length + length % 2
    return durations


def _gif_colors(flags: bytes) -> int:
    """Return the bytes of the table of colours that some flags announce."""
    return 3 << 1 + (flags[0] & 7) if flags and flags[0] & 0x80 else 0


def _png_pictures(data: bytes) -> int:
    """Return the number in the chunk acTL, which stands before the pixels."""
    start = 8
    while start + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, start)
        if kind == b"acTL":
            return int.from_bytes(data[start + 8 : start + 12], "big")
        if kind == b"IDAT":
            break
        start += 12 + length
    return 1
