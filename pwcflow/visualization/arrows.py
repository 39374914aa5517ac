"""Style `arrows`: a quiver of arrows."""

from functools import partial

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.color import ColorCode, flow_to_color
from pwcflow.flow_file import known_pixels
from pwcflow.palette import Rgb
from pwcflow.visualization.key import ArrowKey, Key, bar_length
from pwcflow.visualization.look import Look
from pwcflow.visualization.overlay import gray
from pwcflow.visualization.scene import Picture, Scene
from pwcflow.visualization.style import COLOR_OPTIONS, Style

_LONGEST = 0.95  # of the distance of arrows, so that none reaches another
_DIMMED = 0.55  # what is left of a frame's light below arrows
_SHORTEST_PX = 1.5  # of an arrow as drawn; a shorter one is a dot
_DOT = (128, 128, 128)
_SUBPIXEL_BITS = 4

# Half of an arrow of length 1 to the right, around its middle, for one as long as arrows get: the
# head keeps its size while the shaft shrinks. In parts of the longest length.
_HEAD_LENGTH = 0.38
_HEAD_WIDTH = 0.17
_SHAFT_WIDTH = 0.055


def draw(scene: Scene, look: Look, scale_px: float) -> Picture:
    """Return arrows over the first frame, if there is one, or over the background, (H, W, 3).

    Each arrow is the vector of the pixel at its middle. One of the scale's length is as long as 95
    hundredths of their distance, as are faster ones; the others are in proportion, and those up to
    the noise floor, or too short to draw, are dots. The colour tells the direction once more.
    """
    code = look.color_code()
    height, width = scene.flow.shape[:2]
    spacing = look.spacing_for(height, width)
    image = canvas(scene, code)
    y, x = (_middles(side, spacing) for side in (height, width))
    vectors = np.ascontiguousarray(scene.flow[np.ix_(y, x)], np.float32).reshape(-1, 2)
    known = known_pixels(vectors[None])[0]
    places = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)[known]
    vectors = vectors[known].astype(np.float64)
    lengths = np.hypot(vectors[:, 0], vectors[:, 1])
    drawn = np.minimum(lengths / scale_px, 1) * _LONGEST * spacing
    colors = direction_colors(vectors, code)
    for place, vector, length, size, color in zip(
        places.tolist(), vectors, lengths, drawn, colors, strict=True
    ):
        if size < _SHORTEST_PX or length <= code.noise_floor_px:
            _draw_dot(image, place, spacing)
        else:
            draw_arrow(image, place, vector / length, size, spacing, color)
    return image


def key(scene: Scene, look: Look, scale_px: float) -> Key:
    """Return an arrow as long as the longest."""
    height, width = scene.flow.shape[:2]
    (color,) = direction_colors(np.array([[1.0, 0.0]]), look.color_code())
    spacing = look.spacing_for(height, width)
    arrow = partial(_draw_example, color=color)
    return ArrowKey(arrow, spacing, scale_px, bar_length(height, width))


def canvas(scene: Scene, code: ColorCode) -> Picture:
    """Return what lies below: the first frame in gray, darkened, or the background."""
    if scene.frame is None:
        return np.full((*scene.flow.shape[:2], 3), code.still, np.uint8)
    return np.asarray(cv2.convertScaleAbs(gray(scene.first_picture()), alpha=_DIMMED), np.uint8)


def direction_colors(vectors: npt.NDArray[np.float64], code: ColorCode) -> list[Rgb]:
    """Return the full colours of the directions of vectors (N, 2), none of them 0 or unknown."""
    if not len(vectors):
        return []
    rim = ColorCode(palette=code.palette)
    lengths = np.maximum(np.hypot(vectors[:, 0], vectors[:, 1]), 1e-30)[:, None]
    colors = flow_to_color((vectors / lengths)[None].astype(np.float32), 1.0001, rim)
    return [tuple(color) for color in colors[0].tolist()]


def draw_arrow(
    image: Picture,
    middle: tuple[float, float],
    direction: npt.NDArray[np.float64],
    size: float,
    spacing: float,
    color: Rgb,
) -> None:
    """Draw an arrow with a rim around it, which makes it readable on anything.

    Args:
        image: is changed.
        middle: (x, y) in pixels.
        direction: a unit vector.
        size: its length in pixels.
        spacing: the distance of arrows in pixels, which the size of heads goes by.
        color: of the inside.
    """
    head = min(_HEAD_LENGTH * spacing, 0.7 * size)
    thick = head / _HEAD_LENGTH
    wide, shaft = _HEAD_WIDTH * thick, max(_SHAFT_WIDTH * thick, 0.5)
    tip, tail, neck = size / 2, -size / 2, size / 2 - head
    along = np.array([tail, neck, neck, tip, neck, neck, tail])
    across = np.array([-shaft, -shaft, -wide, 0, wide, shaft, shaft])
    u, v = direction
    outline = np.stack([along * u - across * v, along * v + across * u], 1) + middle
    points = np.rint(outline * 2**_SUBPIXEL_BITS).astype(np.int32)
    rim = (0, 0, 0) if _luma(color) > 110 else (255, 255, 255)
    line = max(1, round(spacing / 20))
    cv2.polylines(image, [points], True, rim, 1 + line, cv2.LINE_AA, _SUBPIXEL_BITS)
    cv2.fillPoly(image, [points], color, cv2.LINE_AA, _SUBPIXEL_BITS)


def _draw_example(
    image: Picture, middle: tuple[float, float], spacing: float, *, color: Rgb
) -> None:
    draw_arrow(image, middle, np.array([1.0, 0.0]), _LONGEST * spacing, spacing, color)


def _draw_dot(image: Picture, place: tuple[int, int], spacing: int) -> None:
    radius = max(0, round(spacing / 24))
    cv2.circle(image, place, radius, _DOT, -1, cv2.LINE_AA)


def _middles(side: int, spacing: int) -> npt.NDArray[np.intp]:
    """Return the middles of as many cells as fit into a side, at least one, which are centred."""
    cells = max(1, side // spacing)
    first = (side - (cells - 1) * spacing) // 2
    return first + spacing * np.arange(cells)


def _luma(color: Rgb) -> float:
    return 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]


ARROWS = Style(
    shows="arrows, over the frame if there is one",
    draw=draw,
    options=COLOR_OPTIONS | {"background", "spacing"},
    takes=("frame",),
    key=key,
)
