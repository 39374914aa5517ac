"""Photographs and cut-outs from folders, as the renderer samples them."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import torch

from pwcflow.errors import ImageError
from pwcflow.image_file import IMAGE_SUFFIXES, read_rgba
from pwcflow.training.render_reference import Textures

PHOTO_HEIGHT, PHOTO_WIDTH = 640, 896
SPRITE_SIZE = 256
_TRANSPARENT = 0.05
"""An image is a cut-out if more than this share of it has an alpha below a half."""


def load_textures(
    photos: Iterable[Path],
    sprites: Iterable[Path],
    *,
    photo_size: tuple[int, int] = (PHOTO_HEIGHT, PHOTO_WIDTH),
    sprite_size: int = SPRITE_SIZE,
) -> Textures:
    """Return the images of some folders as textures on the CPU.

    Args:
        photos: folders of photographs; each is scaled to cover `photo_size` and cropped to it.
            Cut-outs are passed over, so one folder may hold both.
        sprites: folders of cut-outs, PNG or WebP with an alpha channel of 8 bits; each is fitted
            into a square. Other images are passed over, and what is transparent or opaque all over.
        photo_size: height and width.
        sprite_size: side of the square.

    Without folders of photographs there is one of plain gray in their place: leave it out of the
    scenes.

    Raises:
        ImageError: a folder is missing or has no image in it, or none of `photos` is a photograph,
            or an image cannot be read.
    """
    files = _images(photos)
    photographs = [photo for file in files if (photo := _photo(file, photo_size)) is not None]
    if files and not photographs:
        raise _no_photograph(files)
    if not photographs:
        photographs = [np.full((*photo_size, 4), 128, np.uint8)]
    cut_outs = [
        sprite for file in _images(sprites) if (sprite := _sprite(file, sprite_size)) is not None
    ]
    return Textures(
        torch.from_numpy(np.stack(photographs)),
        torch.from_numpy(
            np.stack(cut_outs) if cut_outs else np.zeros((0, sprite_size, sprite_size, 4), np.uint8)
        ),
    )


def check_folders(photos: Iterable[Path], sprites: Iterable[Path], holdout: Iterable[Path]) -> None:
    """Refuse folders of which nothing could come, before anything is made of the others.

    Args:
        photos: folders of photographs.
        sprites: folders of cut-outs.
        holdout: folders of either; with `photos` they hold a photograph, else a cut-out.

    Raises:
        ImageError: a folder is missing or has no image in it, or only images of the other kind.
    """
    photographs, cut_outs, others = map(_images, (photos, sprites, holdout))
    for files in (photographs, others if photographs else []):
        if files and all(_is_cut_out(read_rgba(file)) for file in files):
            raise _no_photograph(files)
    for files, instead in (
        (cut_outs, "give photographs as such"),
        ([] if photographs else others, "train on photographs, too"),
    ):
        if files and all(_sprite(file, SPRITE_SIZE) is None for file in files):
            raise ImageError(
                f"there is no cut-out in {_folders_of(files)}: no PNG or WebP with an alpha "
                "channel of 8 bits that is not transparent or opaque all over; add some, or "
                f"{instead}"
            )


def _no_photograph(files: list[Path]) -> ImageError:
    return ImageError(
        f"there is no photograph in {_folders_of(files)}, only cut-outs, whose transparent parts "
        "have no colours; add photographs"
    )


def _folders_of(files: list[Path]) -> str:
    return ", ".join(dict.fromkeys(str(file.parent) for file in files))


def _images(folders: Iterable[Path]) -> list[Path]:
    files = []
    for folder in folders:
        if not folder.is_dir():
            raise ImageError(f"{folder} is not a folder; give a folder of images")
        found = sorted(
            file
            for file in folder.iterdir()
            if file.suffix.lower() in IMAGE_SUFFIXES
            and not file.name.startswith(".")
            and not file.is_dir()
        )
        if not found:
            raise ImageError(
                f"there is no image in {folder}; folders in it are not searched, so name those"
            )
        files += found
    return files


def _is_cut_out(image: npt.NDArray[Any]) -> bool:
    """Return whether an image, RGB or RGBA, is transparent over much of it."""
    if image.shape[2] == 3:
        return False
    return bool((image[..., 3] <= np.iinfo(image.dtype).max // 2).mean() > _TRANSPARENT)


def _middle(image: npt.NDArray[Any], height: int, width: int) -> npt.NDArray[Any]:
    """Return the middle of an image, at most of a size."""
    top, left = (max(0, image.shape[0] - height) // 2, max(0, image.shape[1] - width) // 2)
    return image[top : top + height, left : left + width]


def _photo(file: Path, size: tuple[int, int]) -> npt.NDArray[np.uint8] | None:
    image: npt.NDArray[Any] = read_rgba(file)
    if _is_cut_out(image):
        return None
    image = image[..., :3]
    if image.dtype == np.uint16:
        image = (image >> 8).astype(np.uint8)
    elif image.dtype == np.float32:
        image = np.rint(image * 255).astype(np.uint8)
    height, width = size
    scale = max(height / image.shape[0], width / image.shape[1])
    # Cropped first as far as it can be: a strip of one pixel would grow beyond all memory.
    image = _middle(image, math.ceil(height / scale), math.ceil(width / scale))
    fitted = (
        max(width, round(image.shape[1] * scale)),
        max(height, round(image.shape[0] * scale)),
    )
    smooth = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    crop = _middle(cv2.resize(image, fitted, interpolation=smooth), height, width)
    opaque = np.full((height, width, 1), 255, np.uint8)
    return np.concatenate((crop, opaque), axis=2).astype(np.uint8)


def _sprite(file: Path, size: int) -> npt.NDArray[np.uint8] | None:
    image = read_rgba(file)
    if image.shape[2] == 3 or image.dtype != np.uint8:
        return None
    if not image[..., 3].any() or (image[..., 3] == 255).all():
        return None
    # A pixel is left free on each side, so that sampling fades out at the outline.
    scale = (size - 4) / max(image.shape[:2])
    fitted = (max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))
    premultiplied = image.astype(np.float32)
    premultiplied[..., :3] *= premultiplied[..., 3:] / 255
    smooth = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    small = cv2.resize(premultiplied, fitted, interpolation=smooth)
    square = np.zeros((size, size, 4), np.uint8)
    top, left = (size - fitted[1]) // 2, (size - fitted[0]) // 2
    square[top : top + fitted[1], left : left + fitted[0]] = np.rint(small).clip(0, 255)
    return square
