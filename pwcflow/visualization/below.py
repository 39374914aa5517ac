"""What arrows and lines share: what lies below them, their colours, their distance, their key."""

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.color import ColorCode, flow_to_color
from pwcflow.color.palette import Rgb
from pwcflow.visualization.key import ArrowKey, DrawArrow, Key, bar_length, ink_on
from pwcflow.visualization.look import Look
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


def spacing_of(scene: Scene, look: Look, across: int) -> int:
    """Return the distance in pixels that is asked for.

    Else it is one at which `across` of them fit into the longer side, at least 12.
    """
    return look.spacing or max(12, round(max(scene.flow.shape[:2]) / across))


def example_key(draw: DrawArrow, scene: Scene, look: Look, scale_px: float, across: int) -> Key:
    """Return a key that shows what stands for a vector of the scale's length, to the right."""
    (color,) = direction_colors(np.array([[1.0, 0.0]]), look.color_code()).tolist()
    bar = bar_length(*scene.flow.shape[:2])
    return ArrowKey(draw, color, spacing_of(scene, look, across), scale_px, bar)
