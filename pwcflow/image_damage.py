"""Tells from an image file's layout, and from libjpeg's complaints, what a decoder would let pass.

OpenCV decodes a JPEG or a TIFF that was cut short, and fills the rest with gray: the motion found
there would look real. It also makes room for every size that a header claims.
"""

import re
import struct
import zlib
from pathlib import Path

from pwcflow.errors import ImageError

_MAX_PIXELS = 1 << 28  # 1.6 GB of 16-bit RGB; the most that WebP and AVIF hold
_SIZES = {  # how a file begins, up to its width and height, and how these two are stored
    re.compile(start + rb"(.{%d})" % struct.calcsize(layout), re.DOTALL): layout
    for start, layout in (
        (rb"\x89PNG.{12}", ">II"),
        (rb"GIF8..", "<HH"),
        (rb"BM.{12}\x0c\0\0\0", "<HH"),  # OS/2
        (rb"BM.{12}[^\x0c]\0\0\0", "<ii"),
        (rb"(?:....jP  .*?)?\xff\x4f\xff\x51.{4}", ">II"),  # JPEG 2000
    )
}

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JPEG_SIGNATURE = b"\xff\xd8\xff"
_JPEG_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])")  # neither a stuffed 0xFF nor a restart
_JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # the headers that hold the size
_JPEG_END = 0xD9
_JPEG_DAMAGE = re.compile(rb"(?:premature end|bad \w+ code|found marker).*", re.IGNORECASE)
_TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_TIFF_SIZE = (256, 257)
_TIFF_BLOCKS = ((273, 279), (324, 325))  # offset and byte count tags, of strips and of tiles
_TIFF_WANTED = {*_TIFF_SIZE, *_TIFF_BLOCKS[0], *_TIFF_BLOCKS[1]}
_TIFF_FORMATS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}
_TIFF_MAX_BLOCKS = 1 << 24


def check_layout(path: Path, data: bytes) -> None:
    """Check a file before it is decoded.

    Raises:
        ImageError: a PNG, JPEG or TIFF is cut short, a PNG fails a checksum, or the header claims
            more than 2^28 pixels.
    """
    for start, layout in _SIZES.items():
        if match := start.match(data):
            _check_size(path, *struct.unpack(layout, match[1]))
    if data.startswith(_PNG_SIGNATURE):
        _check_png(path, data)
    elif data.startswith(_JPEG_SIGNATURE):
        _check_jpeg(path, data)
    elif data.startswith(_TIFF_SIGNATURES):
        _check_tiff(path, data)


def check_complaints(path: Path, complaints: bytearray) -> None:
    """Check what libjpeg wrote while it decoded; it goes on after damage, with pixels of its own.

    Its other complaints prove nothing: bytes too many before a marker, which webcams write, or a
    strange header. Source: the JWRN messages of jerror.h.

    Raises:
        ImageError: a part of the picture is made up.
    """
    if match := _JPEG_DAMAGE.search(complaints):
        raise ImageError(
            f"{path} is damaged: its decoder found '{match[0].decode('ascii', 'replace')}'; "
            "make or copy the JPEG file again"
        )


def _check_size(path: Path, width: int, height: int) -> None:
    height = abs(height)  # a BMP from top to bottom has a negative one
    if width * height > _MAX_PIXELS:
        raise ImageError(
            f"{path} is too large or damaged: its header says {width} x {height} pixels, "
            f"and {_MAX_PIXELS // 10**6} million is the limit; make it again or make it smaller"
        )


def _cut_short(path: Path, kind: str, reason: str) -> ImageError:
    return ImageError(f"{path} is cut short: {reason}; make or copy the {kind} file again")


def _check_png(path: Path, data: bytes) -> None:
    """Raise unless every chunk is there, up to the last, and has the right checksum."""
    position = len(_PNG_SIGNATURE)
    kind = b""
    while kind != b"IEND":
        if position + 12 > len(data):
            raise _cut_short(path, "PNG", f"it ends after {len(data)} bytes, before its last chunk")
        length, kind = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        if end > len(data):
            raise _cut_short(path, "PNG", f"{end} bytes or more are needed, it has {len(data)}")
        (checksum,) = struct.unpack_from(">I", data, end - 4)
        if zlib.crc32(memoryview(data)[position + 4 : end - 4]) != checksum:
            raise ImageError(
                f"{path} is damaged: a checksum at byte {end - 4} is wrong; "
                "make or copy the PNG file again"
            )
        position = end


def _check_jpeg(path: Path, data: bytes) -> None:
    """Raise unless the JPEG reaches its end marker; one inside a thumbnail does not count."""
    position = 2
    while (match := _JPEG_MARKER.search(data, position)) is not None:
        marker, start = match[1][0], match.end()
        if marker == _JPEG_END:
            return
        length, height, width = (  # 0 where the file is over
            int.from_bytes(data[start + at : start + at + 2], "big") for at in (0, 3, 5)
        )
        if marker in _JPEG_FRAMES:
            _check_size(path, width, height)
        position = start + length
    raise _cut_short(path, "JPEG", f"it ends after {len(data)} bytes, without its end marker")


def _check_tiff(path: Path, data: bytes) -> None:
    """Raise unless the file holds every strip or tile that its first page lists."""
    try:
        tags = _tiff_tags(data)
    except (struct.error, OverflowError) as error:  # the latter for an offset of 64 bits
        raise _cut_short(
            path, "TIFF", f"it ends after {len(data)} bytes, before its table of contents"
        ) from error
    width, height = (max(tags.get(tag, ()), default=0) for tag in _TIFF_SIZE)
    _check_size(path, width, height)
    for offset_tag, size_tag in _TIFF_BLOCKS:
        pairs = zip(tags.get(offset_tag, ()), tags.get(size_tag, ()), strict=False)
        needed = max((offset + size for offset, size in pairs), default=0)
        if needed > len(data):
            raise _cut_short(path, "TIFF", f"it needs {needed} bytes, it has {len(data)}")


def _tiff_tags(data: bytes) -> dict[int, tuple[int, ...]]:
    """Return the wanted tags of the first page; struct.error if it is not all there."""
    order = "<" if data[:2] == b"II" else ">"
    big = data[2:4] in (b"+\0", b"\0+")
    size, count_format, value_at = ("Q", "Q", 12) if big else ("I", "H", 8)
    (table,) = struct.unpack_from(order + size, data, 8 if big else 4)
    (count,) = struct.unpack_from(order + count_format, data, table)
    table += struct.calcsize(order + count_format)
    tags = {}
    for entry in range(table, table + count * (20 if big else 12), 20 if big else 12):
        tag, kind, length = struct.unpack_from(order + "HH" + size, data, entry)
        if tag not in _TIFF_WANTED or kind not in _TIFF_FORMATS or length > _TIFF_MAX_BLOCKS:
            continue
        values = f"{order}{length}{_TIFF_FORMATS[kind]}"
        position = entry + value_at
        if struct.calcsize(values) > struct.calcsize(order + size):
            (position,) = struct.unpack_from(order + size, data, position)
        tags[tag] = struct.unpack_from(values, data, position)
    return tags
