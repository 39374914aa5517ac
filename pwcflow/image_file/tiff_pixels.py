"""Pixels of a TIFF, of the kinds too that OpenCV turns into something else.

OpenCV multiplies 8-bit colours by their alpha, mixes up 16-bit planes, cuts 16-bit gray with alpha
down to 8 bits, takes no notice of "white is 0" beyond 8 bits, and knows neither half floats nor
16-bit CMYK. So it is given such a page as if it were gray, as wide as its rows are long, which
leaves it nothing to do but to decompress; the rest is done here.
"""

from pathlib import Path
from typing import Any, TypeAlias, cast

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.errors import ImageError
from pwcflow.image_file import tiff
from pwcflow.image_file.damage import MAX_SIDE
from pwcflow.image_file.exif import upright
from pwcflow.image_file.opencv import Decoded, decode, decode_rgb
from pwcflow.image_file.tiff import Page

_Bytes: TypeAlias = npt.NDArray[np.uint8]

_LOSSLESS = (1, 5, 8, 32773, 32946)  # none, LZW, Deflate, PackBits, Deflate by its older number
_WHITE_IS_0, _BLACK_IS_0, _RGB, _CMYK = 0, 1, 2, 5
_COLORS = {_WHITE_IS_0: 1, _BLACK_IS_0: 1, _RGB: 3, _CMYK: 4}  # channels without the extra ones
_DIFFERENCES, _FLOAT_DIFFERENCES = 2, 3
_PREDICTORS = ((1,), (1, _DIFFERENCES, _FLOAT_DIFFERENCES))  # of parts of bytes, and of whole ones
_KINDS = {1: "u", 2: "i", 3: "f", 4: "u"}  # 4: unknown, by the standard
_PLANES = 2
_WHOLE = slice(None)
_SETTLED = (  # here, so OpenCV is not told of it
    *(tiff.PREDICTOR, tiff.PLANAR, tiff.EXTRA_SAMPLES, tiff.SAMPLE_FORMAT, tiff.ORIENTATION),
)


def decode_tiff(path: Path, data: bytes, page: Page) -> Decoded | None:
    """Return a page as (H, W, 3) RGB, upright; None where it cannot be decoded.

    Whole numbers of 8 and 16 bits fill the range of their type, unsigned; others are as stored.

    Raises:
        ImageError: the page is damaged.
    """
    if not _is_plain(page):
        whole = data if page.is_first else tiff.one_page(data, page, {}, _WHOLE)
        return decode_rgb(path, whole, cv2.IMREAD_ANYDEPTH)
    if sum(size for _, size in page.blocks()) > 2 * len(data):
        raise ImageError(
            f"{path} is damaged: its strips take more bytes than it has; make or copy the TIFF "
            "file again"
        )
    samples = _samples(path, data, page)
    if samples is None:
        return None
    return upright(_rgb(samples, page.first(tiff.PHOTOMETRIC)), page.first(tiff.ORIENTATION))


def _is_plain(page: Page) -> bool:
    """Return whether a page is numbers of whole bytes, or 2 or 4 bits, once it is decompressed.

    Not those of 8 bits without anything special, which OpenCV decodes well and in less memory.
    """
    kind = page.first(tiff.PHOTOMETRIC, -1)
    bits = page.bits
    if bits == 8 and kind != _CMYK and page.samples == _COLORS.get(kind):
        return False
    return (
        page.first(tiff.COMPRESSION, 1) in _LOSSLESS
        and kind in _COLORS
        and page.samples >= _COLORS[kind]
        and page.first(tiff.PREDICTOR, 1) in _PREDICTORS[bits % 8 == 0]
        and bits in (2, 4, 8, 16, 32, 64)
        and len({*page.tags.get(tiff.BITS, ())}) <= 1
        and len(page.blocks()) > 0
        and page.first(tiff.WIDTH) > 0
    )


def _samples(path: Path, data: bytes, page: Page) -> Decoded | None:
    """Return the numbers (H, W, channels) of a page, as they are stored."""
    blocks, channels = len(page.blocks()), page.samples
    if page.first(tiff.PLANAR, 1) != _PLANES or channels == 1:
        return _numbers(path, data, page, channels, _WHOLE)
    each = blocks // channels
    planes = []
    for channel in range(min(channels, _COLORS[page.first(tiff.PHOTOMETRIC)])):
        wanted = slice(channel * each, (channel + 1) * each)
        plane = _numbers(path, data, page, 1, wanted)
        if plane is None:
            return None
        planes.append(plane)
    return np.concatenate(planes, axis=2)


def _numbers(path: Path, data: bytes, page: Page, channels: int, blocks: slice) -> Decoded | None:
    """Return (H, W, channels) of some strips or tiles that hold so many channels side by side."""
    width, height = page.first(tiff.WIDTH), page.first(tiff.HEIGHT)
    column = page.first(tiff.TILE_WIDTH) or width  # how wide what is compressed at a time is
    padded = -(-width // column) * column
    stored = -(-column * page.bits * channels // 8)  # bytes
    step = 2 if stored % 2 == 0 else 1  # as 16 bits, OpenCV decodes without a detour over RGBA
    shape = height, padded // column * stored // step
    if shape[1] > MAX_SIDE:
        return None
    changed = dict.fromkeys(_SETTLED) | {
        tiff.WIDTH: shape[1],
        tiff.BITS: 8 * step,
        tiff.SAMPLES: 1,
        tiff.PHOTOMETRIC: _BLACK_IS_0,
    }
    if tiff.TILE_WIDTH in page.tags:
        changed[tiff.TILE_WIDTH] = stored // step
    gray = decode(path, tiff.one_page(data, page, changed, blocks), cv2.IMREAD_UNCHANGED)
    if gray is None or gray.shape != shape or gray.dtype.itemsize != step:
        return None
    rows = np.ascontiguousarray(gray, f"{page.order}u{step}").view(np.uint8)  # as in the file
    pieces = rows.reshape(height, -1, stored)  # by column of tiles
    numbers = _unpacked(pieces, page, channels)
    return numbers.reshape(height, padded, channels)[:, :width]


def _unpacked(pieces: _Bytes, page: Page, channels: int) -> Decoded:
    """Return numbers (H, columns, pixels, channels) of bytes (H, columns, bytes)."""
    bits, predictor = page.bits, page.first(tiff.PREDICTOR, 1)
    shape = (*pieces.shape[:2], -1, channels)
    if bits < 8:
        column = page.first(tiff.TILE_WIDTH) or page.first(tiff.WIDTH)
        full = np.uint8((1 << bits) - 1)
        places = np.arange(8 - bits, -1, -bits, dtype=np.uint8)
        values = (pieces[..., None] >> places & full) * (255 // full)
        return values.reshape(*pieces.shape[:2], -1)[..., : column * channels].reshape(shape)
    kind = _KINDS.get(page.first(tiff.SAMPLE_FORMAT, 1), "V")
    order = page.order
    if predictor == _FLOAT_DIFFERENCES:
        # each row holds the most significant bytes of all its numbers, then the next ones
        undone = _summed(pieces.reshape(shape))
        planes = undone.reshape(*pieces.shape[:2], bits // 8, -1)
        pieces = np.ascontiguousarray(np.moveaxis(planes, 2, 3)).reshape(pieces.shape)
        order = ">"
    unsigned = pieces.view(np.dtype(f"{order}u{bits // 8}")).reshape(shape)
    unsigned = np.ascontiguousarray(unsigned, unsigned.dtype.newbyteorder("="))
    if predictor == _DIFFERENCES:
        unsigned = _summed(unsigned)
    return cast(Decoded, unsigned.view(np.dtype(f"{kind}{bits // 8}")))


def _summed(differences: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Undo differences between neighbours, (..., pixels, channels)."""
    return np.cumsum(differences, axis=-2, dtype=differences.dtype)


def _rgb(samples: Decoded, photometric: int) -> Decoded:
    if samples.dtype not in (np.uint8, np.uint16) and samples.dtype.kind != "f":
        return samples  # of which no one knows what white is
    full = {"uint8": 255.0, "uint16": 65535.0}.get(samples.dtype.name, 1.0)
    if photometric == _CMYK:
        inks = samples[..., :4].astype(np.float64) / full
        light = (1 - inks[..., :3]) * (1 - inks[..., 3:]) * full
        return (light if full == 1 else np.rint(light)).astype(samples.dtype)
    if photometric == _RGB:
        return samples[..., :3]
    gray = samples[..., :1] if photometric == _BLACK_IS_0 else full - samples[..., :1]
    return np.repeat(gray.astype(samples.dtype, copy=False), 3, axis=2)
