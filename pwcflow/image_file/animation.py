"""How many pictures an image file holds."""

import struct

from pwcflow.image_file import tiff

_GIF_IMAGE, _GIF_EXTENSION = 0x2C, 0x21
_GIF_HEAD, _GIF_IMAGE_HEAD = 13, 10
_WEBP_IS_ANIMATED = 0x02


def picture_count(data: bytes) -> int:
    """Return how many pictures a whole TIFF, GIF, PNG or WebP holds; 1 for others."""
    if data.startswith(tiff.SIGNATURES):
        return len(tiff.pictures_of(data))
    if data.startswith(b"GIF8"):
        return _gif_pictures(data)
    if data.startswith(b"\x89PNG"):
        return _png_pictures(data)
    if data.startswith(b"RIFF") and data[12:16] == b"VP8X" and data[20:21]:
        return data.count(b"ANMF") if data[20] & _WEBP_IS_ANIMATED else 1
    return 1


def _gif_pictures(data: bytes) -> int:
    pictures = 0
    position = _GIF_HEAD + _color_table(data, 10)
    while position < len(data):
        kind = data[position]
        if kind == _GIF_IMAGE:
            pictures += 1
            position += _GIF_IMAGE_HEAD + _color_table(data, position + 9) + 1
        elif kind == _GIF_EXTENSION:
            position += 2
        else:
            break
        while position < len(data) and data[position]:
            position += 1 + data[position]
        position += 1
    return pictures


def _color_table(data: bytes, position: int) -> int:
    """Return the bytes of the table that the flags at a position announce."""
    flags = data[position] if position < len(data) else 0
    return 3 << 1 + (flags & 7) if flags & 0x80 else 0


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
