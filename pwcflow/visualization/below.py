"""What lies below arrows and lines, and the colours that they have on it."""

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.color import ColorCode, flow_to_color
from pwcflow.color.palette import Rgb
from pwcflow.visualization.key import ink_on
from pwcflow.visualization.overlay import gray
from pwcflow.visualization.scene import Picture, Scene

_LIGHTENED = 0.5  # what is left of a frame's contrast, below white


def canvas(scene: Scene, code: ColorCode) -> Picture:
    """Return the first frame, gray and lightened, if there is one, or else the background."""
    if scene.frame is None:
        return np.full((*scene.flow.shape[:2], 3), code.still, np.uint8)
    levels = cv2.convertScaleAbs(
        gray(scene.first_picture()), alpha=_LIGHTENED, beta=255 * (1 - _LIGHTENED)
    )
    return np.asarray(levels, np.uint8)


def ink_below(scene: Scene, code: ColorCode) -> Rgb:
    """Return the colour of a rim that is seen on the canvas."""
    return ink_on(code.still) if scene.frame is None else (0, 0, 0)


def direction_colors(vectors: npt.NDArray[np.floating], code: ColorCode) -> Picture:
    """Return the full colours of the directions of known vectors (N, 2), as (N, 3)."""
    lengths = np.maximum(np.hypot(vectors[:, 0], vectors[:, 1]), 1e-30)[:, None]
    units = (vectors / lengths).astype(np.float32)
    # Lengths of 1 with a rounding error are not beyond this.
    colors: Picture = flow_to_color(units[None], 1.00001, ColorCode(palette=code.palette))[0]
    return colors


def usual_spacing(height: int, width: int, across: int) -> int:
    """Return a distance in pixels at which so many fit into the longer side, at least 12."""
    return max(12, round(max(height, width) / across))
