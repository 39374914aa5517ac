"""Style `arrows`: a quiver of arrows."""

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.color.palette import Rgb
from pwcflow.flow_file import known_pixels
from pwcflow.visualization.below import canvas, direction_colors, example_key, ink_below, spacing_of
from pwcflow.visualization.key import Key
from pwcflow.visualization.look import Look
from pwcflow.visualization.scene import Picture, Scene
from pwcflow.visualization.style import COLOR_OPTIONS, Style

_ARROWS_ACROSS = 24  # in the longer side
_LONGEST = 0.95  # of the distance of arrows, so that none reaches another
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
    spacing = spacing_of(scene, look, _ARROWS_ACROSS)
    image = canvas(scene, code)
    ink = ink_below(scene, code)
    y, x = (_middles(side, spacing) for side in (height, width))
    vectors = np.ascontiguousarray(scene.flow[np.ix_(y, x)], np.float32).reshape(-1, 2)
    known = known_pixels(vectors[None])[0]
    places = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2)[known]
    vectors = vectors[known].astype(np.float64)
    lengths = np.hypot(vectors[:, 0], vectors[:, 1])
    drawn = np.minimum(lengths / scale_px, 1) * _LONGEST * spacing
    colors = direction_colors(vectors, code).tolist()
    for place, vector, length, size, color in zip(
        places.tolist(), vectors, lengths, drawn, colors, strict=True
    ):
        if size < _SHORTEST_PX or length <= code.noise_floor_px:
            _draw_dot(image, place, spacing)
        else:
            draw_arrow(image, place, vector / length, size, spacing, color, ink)
    return image


def key(scene: Scene, look: Look, scale_px: float) -> Key:
    """Return an arrow as long as the longest."""
    return example_key(_draw_example, scene, look, scale_px, _ARROWS_ACROSS)


def draw_arrow(
    image: Picture,
    middle: tuple[float, float],
    direction: npt.NDArray[np.float64],
    size: float,
    spacing: float,
    color: Rgb,
    ink: Rgb,
) -> None:
    """Draw an arrow with a rim around it, which makes it readable on anything.

    Args:
        image: is changed.
        middle: (x, y) in pixels.
        direction: a unit vector.
        size: its length in pixels.
        spacing: the distance of arrows in pixels, which the size of heads goes by.
        color: of the inside.
        ink: of the rim.
    """
    head = min(_HEAD_LENGTH * spacing, 0.6 * size)
    thick = head / _HEAD_LENGTH
    wide, shaft = _HEAD_WIDTH * thick, max(_SHAFT_WIDTH * thick, 0.5)
    tip, tail, neck = size / 2, -size / 2, size / 2 - head
    along = np.array([tail, neck, neck, tip, neck, neck, tail])
    across = np.array([-shaft, -shaft, -wide, 0, wide, shaft, shaft])
    u, v = direction
    outline = np.stack([along * u - across * v, along * v + across * u], 1) + middle
    points = np.rint(outline * 2**_SUBPIXEL_BITS).astype(np.int32)
    line = max(1, round(spacing / 40))
    cv2.polylines(image, [points], True, ink, 1 + line, cv2.LINE_AA, _SUBPIXEL_BITS)
    cv2.fillPoly(image, [points], color, cv2.LINE_AA, _SUBPIXEL_BITS)


def _draw_example(
    image: Picture, middle: tuple[float, float], spacing: float, color: Rgb, ink: Rgb
) -> None:
    draw_arrow(image, middle, np.array([1.0, 0.0]), _LONGEST * spacing, spacing, color, ink)


def _draw_dot(image: Picture, place: tuple[int, int], spacing: int) -> None:
    radius = max(0, round(spacing / 24))
    cv2.circle(image, place, radius, _DOT, -1, cv2.LINE_AA)


def _middles(side: int, spacing: int) -> npt.NDArray[np.intp]:
    """Return the middles of as many cells as fit into a side, at least one, which are centred."""
    cells = max(1, side // spacing)
    first = (side - (cells - 1) * spacing) // 2
    return first + spacing * np.arange(cells)


ARROWS = Style(
    draw=draw,
    scale_tells="longest at",
    options=COLOR_OPTIONS | {"background", "spacing"},
    takes=("frame",),
    key=key,
)
