"""Still images on disk: any common format in, 8- or 16-bit RGB out, and back.

OpenCV decodes; what it would let pass is checked first. Some of its versions decode a JPEG or a
TIFF that was cut short, and fill the rest with gray: the motion found there would look real.
"""

import re
import struct
import zlib
from pathlib import Path
from typing import Any, TypeAlias, cast

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.atomic_file import replacing
from pwcflow.errors import ImageError, OutputError
from pwcflow.opencv_log import quiet_decoding

Image: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
"""(H, W, 3) RGB, over the whole range of its type."""

_Decoded: TypeAlias = npt.NDArray[np.integer[Any] | np.floating[Any]]  # whatever OpenCV returns

IMAGE_SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".jpe", ".bmp", ".dib", ".tif", ".tiff", ".webp", ".jp2", ".avif")
) | {".ppm", ".pgm", ".pbm", ".pnm"}
"""Suffixes, in lower case, of the files that `read_image` reads."""

WRITABLE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
_16_BIT_SUFFIXES = (".png", ".tif", ".tiff")

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_CHUNKS_OF_PIXELS = {b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND", b"eXIf"}
_PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEFLATE_MAX_RATIO = 1032  # zlib.net/zlib_tech.html, "Maximum Compression Factor"
_JPEG_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])")  # neither a stuffed 0xFF nor a restart
_JPEG_END = 0xD9
_TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_TIFF_BLOCKS = ((273, 279), (324, 325))  # offset and byte count tags, of strips and of tiles
_TIFF_FORMATS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}
_TIFF_MAX_BLOCKS = 1 << 24
_PNM_SPACE = rb"(?:\s|#[^\n]*\n)+"
_PNM_MAXIMUM = re.compile(
    rb"P[2356]" + _PNM_SPACE + rb"\d+" + _PNM_SPACE + rb"\d+" + _PNM_SPACE + rb"(\d{1,5})"
)
_DEEP_SIGNATURES = re.compile(rb"....(?:ftyp|jP  )|\xff\x4f\xff\x51", re.DOTALL)  # AVIF, JPEG 2000


def read_image(path: str | Path) -> Image:
    """Return an image file as (H, W, 3) RGB, uint8, or uint16 if PNG, TIFF or PNM hold 16 bits.

    Gray becomes three equal channels, a palette and CMYK become RGB, alpha is dropped (an 8-bit
    TIFF with alpha is multiplied by it), and the EXIF orientation is applied. The content decides
    about the format, not the suffix. Only the first image of an animation or of pages is read.

    Raises:
        ImageError: the file is missing, empty, damaged, cut short, no image, or holds floats.
    """
    path = Path(path)
    data = _read_bytes(path)
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH
    if data.startswith(_PNG_SIGNATURE):
        data = _checked_png(path, data)
    elif data.startswith(b"\xff\xd8\xff"):
        _check_jpeg(path, data)
    elif data.startswith(_TIFF_SIGNATURES):
        _check_tiff(path, data)
    elif _DEEP_SIGNATURES.match(data):
        flags = cv2.IMREAD_COLOR  # as 16 bits, their 10 or 12 would come unscaled and so too dark
    image = _decode(data, flags)
    if image is None:
        raise _undecodable(path, data)
    if image.dtype != np.uint8 and image.dtype != np.uint16:
        raise _not_integers(path, image.dtype)
    rgb = cast(Image, cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
    return _full_range(rgb, data)


def write_image(path: str | Path, image: Image) -> None:
    """Write an image (H, W, 3) RGB; the suffix decides the format.

    uint8 fits every format, uint16 fits PNG and TIFF. JPEG has quality 95, WebP is lossless.

    Raises:
        ValueError: the array is not an RGB image of such a type.
        OutputError: the suffix is unknown, the format cannot hold the image, or the file cannot be
            written; an existing file is then left as it was.
    """
    path = Path(path)
    suffix = check_image_suffix(path)
    if image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
        raise ValueError(f"an image is (H, W, 3), but {image.shape = }")
    if image.dtype != np.uint8 and not (image.dtype == np.uint16 and suffix in _16_BIT_SUFFIXES):
        raise ValueError(f"a {suffix} image cannot hold {image.dtype}")
    height, width = image.shape[:2]
    encoded = None
    with quiet_decoding():
        try:
            done, encoded = cv2.imencode(suffix, cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
        except cv2.error:
            done = False
    if not done or encoded is None:
        raise OutputError(
            f"cannot write {path}: {suffix} cannot hold an image of {width} x {height} pixels; "
            "use .png"
        )
    with replacing(path) as temporary:
        temporary.write_bytes(encoded.data)


def check_image_suffix(path: Path) -> str:
    """Return the suffix of `path` in lower case, if `write_image` can write it.

    Raises:
        OutputError: it cannot; the message lists the suffixes that it can.
    """
    suffix = path.suffix.lower()
    if suffix not in WRITABLE_SUFFIXES:
        kind = f"{suffix} is not an image format it knows" if suffix else "it has no suffix"
        raise OutputError(f"cannot write {path}: {kind}; use {' '.join(WRITABLE_SUFFIXES)}")
    return suffix


def _read_bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise ImageError(f"{path} is a folder, not an image; name one file in it")
        data = path.read_bytes()  # Python opens names that OpenCV cannot on some systems
    except FileNotFoundError as error:
        raise ImageError(f"there is no file {path}; check the name and the folder") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ImageError(f"cannot read {path}: {reason}; check the file") from error
    if not data:
        raise ImageError(f"{path} is empty (0 bytes); make or copy it again")
    return data


def _cut_short(path: Path, kind: str, reason: str) -> ImageError:
    return ImageError(f"{path} is cut short: {reason}; make or copy the {kind} file again")


def _checked_png(path: Path, data: bytes) -> bytes:
    """Return a complete PNG without the chunks that do not make pixels.

    libpng prints its opinion of those, such as colour profiles, straight to stderr.
    """
    kept = [_PNG_SIGNATURE]
    position, pixel_bytes, raw_bytes = len(_PNG_SIGNATURE), 0, 0
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
        if kind == b"IHDR" and length == 13:
            width, height, depth, colour = struct.unpack_from(">IIBB", data, position + 8)
            raw_bytes = width * height * depth * _PNG_CHANNELS.get(colour, 1) // 8
        if kind == b"IDAT":
            pixel_bytes += length
        if kind in _PNG_CHUNKS_OF_PIXELS:
            kept.append(data[position:end])
        position = end
    if raw_bytes > pixel_bytes * _DEFLATE_MAX_RATIO:
        raise ImageError(
            f"{path} is damaged: its header says {width} x {height} pixels, which {pixel_bytes} "
            "bytes of data cannot hold; make or copy the PNG file again"
        )
    return b"".join(kept)


def _check_jpeg(path: Path, data: bytes) -> None:
    """Raise unless the JPEG reaches its end marker; one inside a thumbnail does not count."""
    position = 2
    while (match := _JPEG_MARKER.search(data, position)) is not None:
        if match[1][0] == _JPEG_END:
            return
        if match.end() + 2 > len(data):
            break
        (length,) = struct.unpack_from(">H", data, match.end())
        position = match.end() + length
    raise _cut_short(path, "JPEG", f"it ends after {len(data)} bytes, without its end marker")


def _check_tiff(path: Path, data: bytes) -> None:
    """Raise unless the file holds every strip or tile that its first page lists."""
    try:
        tags = _tiff_tags(data)
    except struct.error as error:
        raise _cut_short(
            path, "TIFF", f"it ends after {len(data)} bytes, before its table of contents"
        ) from error
    for offset_tag, size_tag in _TIFF_BLOCKS:
        pairs = zip(tags.get(offset_tag, ()), tags.get(size_tag, ()), strict=False)
        needed = max((offset + size for offset, size in pairs), default=0)
        if needed > len(data):
            raise _cut_short(path, "TIFF", f"it needs {needed} bytes, it has {len(data)}")


def _tiff_tags(data: bytes) -> dict[int, tuple[int, ...]]:
    """Return the block offsets and sizes of the first page; struct.error if it is not all there."""
    order = "<" if data[:2] == b"II" else ">"
    big = data[2:4] in (b"+\0", b"\0+")
    size, count_format, value_at = ("Q", "Q", 12) if big else ("I", "H", 8)
    (table,) = struct.unpack_from(order + size, data, 8 if big else 4)
    (count,) = struct.unpack_from(order + count_format, data, table)
    table += struct.calcsize(order + count_format)
    wanted = {tag for pair in _TIFF_BLOCKS for tag in pair}
    tags = {}
    for entry in range(table, table + count * (20 if big else 12), 20 if big else 12):
        tag, kind, length = struct.unpack_from(order + "HH" + size, data, entry)
        if tag not in wanted or kind not in _TIFF_FORMATS or length > _TIFF_MAX_BLOCKS:
            continue
        values = f"{order}{length}{_TIFF_FORMATS[kind]}"
        position = entry + value_at
        if struct.calcsize(values) > struct.calcsize(order + size):
            (position,) = struct.unpack_from(order + size, data, position)
        tags[tag] = struct.unpack_from(values, data, position)
    return tags


def _decode(data: bytes, flags: int) -> _Decoded | None:
    with quiet_decoding():
        try:
            return cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except cv2.error:
            return None


def _full_range(image: Image, data: bytes) -> Image:
    """Stretch a PNM of, say, 12 bits to the range of its type, as other formats are stored."""
    maximum = int(match[1]) if (match := _PNM_MAXIMUM.match(data)) else 0
    full = int(np.iinfo(image.dtype).max)
    if not 0 < maximum < full:
        return image
    stretched = np.rint(image * (full / maximum)).clip(0, full)
    return cast(Image, stretched.astype(image.dtype))


def _undecodable(path: Path, data: bytes) -> ImageError:
    unchanged = _decode(data, cv2.IMREAD_UNCHANGED)
    if unchanged is not None and unchanged.dtype not in (np.uint8, np.uint16):
        return _not_integers(path, unchanged.dtype)
    known = (_PNG_SIGNATURE, b"\xff\xd8\xff", *_TIFF_SIGNATURES, b"BM", b"RIFF", b"P")
    if data.startswith(known):
        return ImageError(
            f"{path} cannot be decoded: it is damaged, cut short or of a rare kind; "
            "make it again or save it as PNG"
        )
    return ImageError(f"{path} is not an image, or of an unknown format; save it as PNG or JPEG")


def _not_integers(path: Path, dtype: np.dtype[np.generic]) -> ImageError:
    return ImageError(
        f"{path} holds {dtype} values, whose black and white are unknown; "
        "save it with 8 or 16 bits a channel"
    )
