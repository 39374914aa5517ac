"""OpenCV's image codecs, in silence: decoded without the pixels that it makes up, and encoded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.image_file.damage import check_complaints
from pwcflow.opencv_log import quiet_encoding, quietly

Decoded: TypeAlias = npt.NDArray[np.integer[Any] | np.floating[Any]]
"""An image of some number of channels and some type."""


def decode(path: Path, data: bytes, flags: int) -> Decoded | None:
    """Return what OpenCV decodes, with channels in OpenCV's order; None where it cannot.

    Raises:
        ImageError: a part of the picture is made up.
    """

    def decoded() -> Decoded | None:
        try:
            return cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except cv2.error:
            return None

    image, complaints = quietly(decoded)
    check_complaints(path, complaints)
    return image


def decode_rgb(path: Path, data: bytes, flags: int) -> Decoded | None:
    """Return what OpenCV decodes as (H, W, 3) RGB; None where it cannot.

    Raises:
        ImageError: a part of the picture is made up.
    """
    image = decode(path, data, cv2.IMREAD_COLOR | flags)
    if image is None:
        return None
    if image.dtype not in (np.uint8, np.uint16, np.float32):  # of which it swaps no channels
        return image[..., ::-1]
    return cast(Decoded, cv2.cvtColor(image, cv2.COLOR_BGR2RGB))


def encode(suffix: str, image: npt.NDArray[Any], options: Sequence[int] = ()) -> bytes | None:
    """Return an image as a file's bytes; None where OpenCV cannot.

    Args:
        suffix: chooses the format.
        image: (H, W, 3) RGB, or (H, W) gray.
        options: for OpenCV.
    """
    with quiet_encoding():
        try:
            if image.ndim == 3:
                image = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
            done, data = cv2.imencode(suffix, image, options)
        except cv2.error:
            return None
    return data.tobytes() if done else None
