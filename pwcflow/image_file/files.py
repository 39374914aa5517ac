"""Still images on disk: any common format in, RGB of 8 or 16 bits or floats out, and back.

OpenCV decodes most; `image_file.damage` finds what it would let pass.
"""

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias, cast

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.atomic_file import replacing
from pwcflow.errors import ImageError, OutputError, reason_of
from pwcflow.exr_header import MAGIC as EXR_MAGIC
from pwcflow.image_file import exr, pnm, tiff
from pwcflow.image_file.alpha import announces_alpha
from pwcflow.image_file.animation import picture_count
from pwcflow.image_file.damage import check_layout, check_tiff_page
from pwcflow.image_file.exif import orientation_of, upright
from pwcflow.image_file.floats import displayed, from_0_to_1, rgb_of
from pwcflow.image_file.opencv import Decoded, decode, decode_rgb, encode
from pwcflow.image_file.tiff_pixels import decode_tiff
from pwcflow.opencv_log import quietly

Image: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.uint16] | npt.NDArray[np.float32]
"""(H, W, 3) RGB, over the whole range of its type; float32 is from 0 to 1."""

IMAGE_SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".jpe", ".bmp", ".dib", ".tif", ".tiff", ".webp", ".jp2", ".avif")
) | {".ppm", ".pgm", ".pbm", ".pnm", ".pam", ".exr", ".hdr"}
"""Suffixes, in lower case, of the files that `read_image` reads."""

WRITABLE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
_16_BIT_SUFFIXES = (".png", ".tif", ".tiff")

_AVIF_OR_JPEG_2000 = re.compile(rb"....(?:ftyp(?:avi|mif|msf)|jP  )|\xff\x4f\xff\x51", re.DOTALL)
_RADIANCE = (b"#?RADIANCE", b"#?RGBE")
_OTHERS = re.compile(rb"\x89PNG|\xff\xd8\xff|BM|GIF8|RIFF....WEBP|#\?R", re.DOTALL)


def read_image(path: str | Path) -> Image:
    """Return an image file as (H, W, 3) RGB: uint8, uint16 of 16 bits, or float32 from 0 to 1.

    Gray becomes three equal channels, a palette and CMYK become RGB, alpha is dropped, colours as
    they are stored, and the orientation of a camera (EXIF) is applied. 16 bits are kept
    in PNG, TIFF and PNM, also where fewer are in use. Floats of a TIFF or PFM are from 0, black, to
    1, white. EXR and HDR hold light, which is clipped to 0..1 and given sRGB's curve, as a viewer
    shows it. The content decides about the format, not the suffix. `path` may be a pipe, and is
    then waited for.

    Raises:
        ImageError: the file is missing, empty, damaged, cut short, no image, holds several
            pictures, other floats, or numbers of unknown range, or more than 2^28 pixels.
    """
    path = Path(path)
    return _picture(path, _read_one(path))


def read_rgba(path: str | Path) -> Image:
    """Return an image as `read_image` does, but (H, W, 4) RGBA if it is a PNG or WebP with alpha.

    Colours are not multiplied by alpha.

    Raises:
        ImageError: as in `read_image`.
    """
    path = Path(path)
    data = _read_one(path)
    image = decode(path, data, cv2.IMREAD_UNCHANGED) if announces_alpha(data) else None
    if image is None or image.shape[2:] != (4,):
        return _picture(path, data)
    rgba = np.ascontiguousarray(image[..., [2, 1, 0, 3]])
    return _checked(path, upright(rgba, orientation_of(data)))


def read_pages(path: str | Path) -> tuple[int, Iterator[Image]]:
    """Return how many pictures a TIFF holds, and the pictures, each as `read_image` returns one.

    Pages of another size than the first, previews and masks do not count.

    Raises:
        ImageError: the file is missing, empty, damaged or cut short, or is no TIFF; a damaged page
            raises it when its turn comes.
    """
    path = Path(path)
    data = _read_bytes(path)
    if not data.startswith(tiff.SIGNATURES):
        raise ImageError(f"{path} is not a TIFF; only a TIFF has pages")
    check_layout(path, data)
    pages = tiff.pictures_of(data)
    return len(pages), (_page(path, data, page) for page in pages)


def _read_one(path: Path) -> bytes:
    """Return the bytes of a file of one picture."""
    data = _read_bytes(path)
    check_layout(path, data)
    pictures = picture_count(data)
    if pictures > 1:
        raise ImageError(
            f"{path} holds {pictures} pictures, and one is needed here; save the one you mean as a "
            "file of its own, or take `pwcflow video` for the flow between them"
        )
    return data


def _picture(path: Path, data: bytes) -> Image:
    if data.startswith(EXR_MAGIC):
        return displayed(path, rgb_of(path, exr.decode_exr(path, data)))
    if pnm.SIGNATURE.match(data):
        return _checked(path, pnm.decode_pnm(path, data))
    if data.startswith(tiff.SIGNATURES):
        return _page(path, data, tiff.pictures_of(data)[0])
    if not _AVIF_OR_JPEG_2000.match(data) and not _OTHERS.match(data):
        raise ImageError(
            f"{path} is not an image, or of an unknown format; save it as PNG or JPEG, or take "
            "`pwcflow video` if it is a video"
        )
    flags = cv2.IMREAD_IGNORE_ORIENTATION
    if not _AVIF_OR_JPEG_2000.match(data):  # as 16 bits, their 10 or 12 would be left unscaled
        flags |= cv2.IMREAD_ANYDEPTH
    image = decode_rgb(path, data, flags)
    if image is None:
        raise _undecodable(path)
    if data.startswith(_RADIANCE):
        return displayed(path, image)
    return _checked(path, upright(image, orientation_of(data)))


def _page(path: Path, data: bytes, page: tiff.Page) -> Image:
    check_tiff_page(path, data, page)
    image = decode_tiff(path, data, page)
    if image is None:
        raise _undecodable(path)
    return _checked(path, image)


def _checked(path: Path, image: Decoded) -> Image:
    """Return an image whose numbers have a known range."""
    if image.dtype.kind == "f":
        return from_0_to_1(path, image)
    if image.dtype != np.uint8 and image.dtype != np.uint16:
        raise ImageError(
            f"{path} holds {image.dtype} values, whose black and white are unknown; "
            "save it with 8 or 16 bits a channel"
        )
    return cast(Image, image)


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
    encoded, _ = quietly(lambda: encode(suffix, image))
    if encoded is None:
        raise OutputError(
            f"cannot write {path}: {suffix} cannot hold an image of {width} x {height} pixels; "
            "use .png"
        )
    with replacing(path) as temporary:
        temporary.write_bytes(encoded)


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


def _undecodable(path: Path) -> ImageError:
    return ImageError(
        f"{path} cannot be decoded: it is damaged, cut short or of a rare kind; make it again or "
        "save it as PNG"
    )
