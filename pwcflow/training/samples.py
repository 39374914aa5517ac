"""Real pairs as training takes them: images of 8 bits, and zeros where the flow is unknown."""

from pathlib import Path

import cv2
import numpy as np

from pwcflow.datasets import PairFiles, read_truth
from pwcflow.errors import ImageError
from pwcflow.image_file import read_image
from pwcflow.image_file.damage import check_layout
from pwcflow.training.augment import Image8, Sample


def read_sample(pair: PairFiles) -> Sample:
    """Return the images of a pair in 8 bits, and its flow.

    Raises:
        ImageError: an image cannot be read, or is not of the size of the flow.
        FlowFileError: the flow cannot be read.
    """
    first, second = (_read_image(path) for path in pair.frames)
    flow, valid = read_truth(pair, first, second, _read_image)
    return Sample(first, second, np.where(valid[..., None], flow, np.float32(0)), valid)


def _read_image(path: Path) -> Image8:
    """Return an image in 8 bits, as `read_image` but at the same time as other threads."""
    try:
        data = path.read_bytes()
        check_layout(path, data)
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    except (OSError, cv2.error):
        image = None
    if image is None:
        read_image(path)  # which says what is wrong
        raise ImageError(f"{path} cannot be decoded in 8 bits; save it as PNG")
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB).astype(np.uint8, copy=False)
