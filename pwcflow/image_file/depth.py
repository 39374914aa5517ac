"""Images of 16 bits and of floats in 8 bits, as they are shown."""

import numpy as np
import numpy.typing as npt

from pwcflow.image_file.files import Image


def eight_bits(image: Image) -> npt.NDArray[np.uint8]:
    """Return an image (H, W, 3) in 8 bits, rounded; one that is already is not copied."""
    if image.dtype == np.uint8:
        return image.astype(np.uint8, copy=False)
    most = 1.0 if image.dtype.kind == "f" else 65535.0
    result = np.empty(image.shape, np.uint8)
    for row, target in zip(image, result, strict=True):
        target[:] = np.clip(row, 0, most) * np.float32(255 / most) + np.float32(0.5)
    return result
