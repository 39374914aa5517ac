"""Frames of another size, without the false patterns that skipped pixels make."""

from typing import cast

import cv2

from pwcflow.image_file import Image


def resized(image: Image, width: int, height: int) -> Image:
    """Return an image at another size: means of areas where it shrinks, bilinear where it grows."""
    try:
        return _resized(image, width, height)
    except cv2.error as error:  # of sizes that OpenCV takes only memory can be too small
        raise MemoryError(str(error)) from error


def _resized(image: Image, width: int, height: int) -> Image:
    smaller = min(width, image.shape[1]), min(height, image.shape[0])
    if smaller != image.shape[1::-1]:
        image = cast(Image, cv2.resize(image, smaller, interpolation=cv2.INTER_AREA))
    if smaller != (width, height):
        image = cast(Image, cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR))
    return image
