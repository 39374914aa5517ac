"""Style `warp`: what the flow makes of the second frame, beside the first."""

import cv2
import numpy as np

from pwcflow.visualization.look import Look
from pwcflow.visualization.sampling import sampled
from pwcflow.visualization.scene import Picture, Scene
from pwcflow.visualization.style import Style
from pwcflow.visualization.text import draw_text, text_width

GAIN = 3
"""How many times the difference of two pixels is shown."""

_TITLES = (
    "second frame",
    "second frame, warped back",
    f"difference before, x {GAIN}",
    f"difference after, x {GAIN}",
)
_SMALLEST_TITLE = 8  # height in pixels
_TITLES_IN_HEIGHT = 18


def draw(scene: Scene, look: Look, _: float) -> Picture:
    """Return four pictures, (2 H, 2 W, 3): before the warp at the left, after it at the right.

    Above is the second frame, as it is and sampled bilinearly at (x + u, y + v), which makes it
    the first one again where the flow is right. Below is how much they differ from the first:
    `GAIN` times the largest difference of red, green and blue, from black to white. Pixels whose
    flow is unknown or leads out of the picture have the colour of the unknown, by default gray.
    """
    first, second = scene.first_picture(), scene.second_picture()
    height, width = scene.flow.shape[:2]
    unknown = look.unknown or (128, 128, 128)
    result = np.empty((2 * height, 2 * width, 3), np.uint8)
    result[:height, :width] = second
    result[height:, :width] = _difference(first, second)
    for rows, warped, inside in sampled(second, scene.flow):
        below = slice(height + rows.start, height + rows.stop)
        difference = _difference(first[rows], warped)
        for target, source in ((result[rows], warped), (result[below], difference)):
            target[:, width:] = source
            target[:, width:][~inside] = unknown
    _write_titles(result, height, width)
    return result


def _difference(first: Picture, second: Picture) -> Picture:
    largest = cv2.absdiff(first, second).max(axis=2)
    shown = cv2.convertScaleAbs(largest, alpha=GAIN)
    return np.repeat(shown[..., None], 3, axis=2).astype(np.uint8, copy=False)


def _write_titles(image: Picture, height: int, width: int) -> None:
    """Write what each quarter is into its corner, if there is room to read it."""
    size = height / _TITLES_IN_HEIGHT
    widest = max(text_width(title, 100) for title in _TITLES) / 100
    size = min(size, width / (widest + 2))
    if size < _SMALLEST_TITLE:
        return
    for index, title in enumerate(_TITLES):
        top, left = height * (index // 2), width * (index % 2)
        draw_text(image, title, left + size, top + 2 * size, size, (255, 255, 255), (0, 0, 0))


WARP = Style(
    draw=draw,
    options=frozenset({"unknown"}),
    needs=("frame", "second"),
    has_scale=False,
    panels=(2, 2),
)
