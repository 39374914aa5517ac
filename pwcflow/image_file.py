"""Still images on disk: any common format in, 8- or 16-bit RGB out, and back.

OpenCV decodes; `image_damage` finds what it would let pass.
"""

import re
import stat
from pathlib import Path
from typing import Any, TypeAlias, cast

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.atomic_file import replacing
from pwcflow.errors import ImageError, OutputError, reason_of
from pwcflow.image_damage import check_complaints, check_layout
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

_PNM_SPACE = rb"(?:\s|#[^\n]*\n)+"
_PNM_MAXIMUM = re.compile(
    rb"P[2356]" + _PNM_SPACE + rb"\d+" + _PNM_SPACE + rb"\d+" + _PNM_SPACE + rb"(\d{1,5})"
)
_AVIF_OR_JPEG_2000 = re.compile(rb"....(?:ftyp(?:avi|mif|msf)|jP  )|\xff\x4f\xff\x51", re.DOTALL)
_OTHER_SIGNATURES = re.compile(
    rb"\x89PNG|\xff\xd8\xff|II[*+]\0|MM\0[*+]|BM|GIF8|RIFF....WEBP|P[1-7]\s", re.DOTALL
)


def read_image(path: str | Path) -> Image:
    """Return an image file as (H, W, 3) RGB, uint8, or uint16 if PNG, TIFF or PNM hold 16 bits.

    Gray becomes three equal channels, a palette and CMYK become RGB, alpha is dropped (an 8-bit
    TIFF with alpha is multiplied by it), and the EXIF orientation is applied, but not that of an
    AVIF, which OpenCV ignores. The content decides about the format, not the suffix. Only the first
    image of an animation or of pages is read. `path` may be a pipe, and is then waited for.

    Raises:
        ImageError: the file is missing, empty, damaged, cut short, no image, holds floats, or has
            more than 2^28 pixels.
    """
    path = Path(path)
    data = _read_bytes(path)
    check_layout(path, data)
    flags = cv2.IMREAD_COLOR
    if not _AVIF_OR_JPEG_2000.match(data):  # as 16 bits, their 10 or 12 would be left unscaled
        flags |= cv2.IMREAD_ANYDEPTH
    image = _decode(path, data, flags)
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
        kind = f"{suffix} images cannot be written" if suffix else "it has no suffix"
        raise OutputError(f"cannot write {path}: {kind}; use {' '.join(WRITABLE_SUFFIXES)}")
    return suffix


def _read_bytes(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ImageError(f"{path} is a folder, not an image; name one file in it")
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):  # /dev/zero has no end
            raise ImageError(f"{path} is a device, not an image; name an image file")
        data = path.read_bytes()  # Python opens names that OpenCV cannot on some systems
    except FileNotFoundError as error:
        raise ImageError(f"there is no file {path}; check the name and the folder") from error
    except OSError as error:
        raise ImageError(f"cannot read {path}: {reason_of(error)}; check the file") from error
    if not data:
        raise ImageError(f"{path} is empty (0 bytes); make or copy it again")
    return data


def _decode(path: Path, data: bytes, flags: int) -> _Decoded | None:
    with quiet_decoding() as complaints:
        try:
            image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except cv2.error:
            image = None
    check_complaints(path, complaints)
    return image


def _full_range(image: Image, data: bytes) -> Image:
    """Stretch a PNM of, say, 12 bits to the range of its type, as other formats are stored."""
    maximum = int(match[1]) if (match := _PNM_MAXIMUM.match(data)) else 0
    full = int(np.iinfo(image.dtype).max)
    if not 0 < maximum < full:
        return image
    stretched = np.rint(image * (full / maximum)).clip(0, full)
    return cast(Image, stretched.astype(image.dtype))


def _undecodable(path: Path, data: bytes) -> ImageError:
    unchanged = _decode(path, data, cv2.IMREAD_UNCHANGED)
    if unchanged is not None and unchanged.dtype not in (np.uint8, np.uint16):
        return _not_integers(path, unchanged.dtype)
    if _AVIF_OR_JPEG_2000.match(data) or _OTHER_SIGNATURES.match(data):
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
