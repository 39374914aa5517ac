"""Tells from an image file's layout, and from libjpeg's complaints, what a decoder would let pass.

OpenCV decodes a JPEG or a TIFF that was cut short, and fills the rest with gray: the motion found
there would look real. It also makes room for every size that a header claims.
"""

import re
import struct
import zlib
from pathlib import Path

from pwcflow.errors import ImageError
from pwcflow.image_file import tiff

MAX_SIDE = 1 << 20
"""The longest side, in pixels, that OpenCV takes."""
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

_WEBP_CANVAS = re.compile(rb"RIFF....WEBPVP8X.{8}(.{3})(.{3})", re.DOTALL)
_HDR_SIZE = re.compile(rb"#\?R.*?\n[-+]Y (\d{1,9}) [-+]X (\d{1,9})\n", re.DOTALL)

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JPEG_SIGNATURE = b"\xff\xd8\xff"
_JPEG_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])")  # neither a stuffed 0xFF nor a restart
_JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # the headers that hold the size
_JPEG_END = 0xD9
_JPEG_DAMAGE = re.compile(rb"(?:premature end|bad \w+ code|found marker).*", re.IGNORECASE)


def check_layout(path: Path, data: bytes) -> None:
    """Check a file before it is decoded.

    Raises:
        ImageError: a PNG, JPEG or TIFF is cut short, a PNG fails a checksum, or the header claims
            more than 2^28 pixels, or a side of more than 2^20.
    """
    for start, layout in _SIZES.items():
        if match := start.match(data):
            check_size(path, *struct.unpack(layout, match[1]))
    if match := _WEBP_CANVAS.match(data):
        width, height = (int.from_bytes(side, "little") + 1 for side in match.groups())
        check_size(path, width, height)
    if match := _HDR_SIZE.match(data):
        check_size(path, int(match[2]), int(match[1]))
    if data.startswith(_PNG_SIGNATURE):
        _check_png(path, data)
    elif data.startswith(_JPEG_SIGNATURE):
        _check_jpeg(path, data)
    elif data.startswith(tiff.SIGNATURES):
        _check_tiff(path, data)


def check_complaints(path: Path, complaints: bytes) -> None:
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


def check_size(path: Path, width: int, height: int) -> None:
    """Raise `ImageError` if a header claims more pixels than are read."""
    height = abs(height)  # a BMP from top to bottom has a negative one
    limit = None
    if width * height > _MAX_PIXELS:
        limit = f"{_MAX_PIXELS // 10**6} million is the limit"
    elif max(width, height) > MAX_SIDE:
        limit = f"{MAX_SIDE} a side is the limit"
    if limit:
        raise ImageError(
            f"{path} is too large or damaged: its header says {width} x {height} pixels, "
            f"and {limit}; make it again or make it smaller"
        )


def cut_short(path: Path, kind: str, reason: str) -> ImageError:
    """Return the error of a file whose end is missing."""
    return ImageError(f"{path} is cut short: {reason}; make or copy the {kind} file again")


def _check_png(path: Path, data: bytes) -> None:
    """Raise unless every chunk is there, up to the last, and has the right checksum."""
    position = len(_PNG_SIGNATURE)
    kind = b""
    while kind != b"IEND":
        if position + 12 > len(data):
            raise cut_short(path, "PNG", f"it ends after {len(data)} bytes, before its last chunk")
        length, kind = struct.unpack_from(">I4s", data, position)
        end = position + 12 + length
        if end > len(data):
            raise cut_short(path, "PNG", f"{end} bytes or more are needed, it has {len(data)}")
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
            check_size(path, width, height)
        position = start + length
    raise cut_short(path, "JPEG", f"it ends after {len(data)} bytes, without its end marker")


def _check_tiff(path: Path, data: bytes) -> None:
    """Raise unless the file holds all of its first page, and the tags of the others."""
    try:
        pages = tiff.pictures_of(data)
    except (struct.error, OverflowError) as error:  # the latter for an offset of 64 bits
        raise cut_short(
            path, "TIFF", f"it ends after {len(data)} bytes, before its table of contents"
        ) from error
    if not pages:
        raise ImageError(f"{path} is damaged: it has no picture; make or copy the TIFF file again")
    check_tiff_page(path, data, pages[0])


def check_tiff_page(path: Path, data: bytes, page: tiff.Page) -> None:
    """Raise `ImageError` unless the file holds every strip or tile that the page lists."""
    check_size(path, page.first(tiff.WIDTH), page.first(tiff.HEIGHT))
    needed = max((offset + size for offset, size in page.blocks()), default=0)
    if needed > len(data):
        raise cut_short(path, "TIFF", f"it needs {needed} bytes, it has {len(data)}")
