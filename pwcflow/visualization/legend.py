"""Where the key of a picture is put: inside of it, or beside it."""

import math

import numpy as np

from pwcflow.color.palette import Rgb
from pwcflow.errors import OutputError
from pwcflow.visualization.key import SMALLEST_UNIT, Key, ink_on, unit_of
from pwcflow.visualization.scene import Picture

_MARGIN = 1.0  # in units, as all lengths of a key


def beside(picture: Picture, key: Key, background: Rgb) -> Picture:
    """Return a picture with its key at the right, in a strip of the background's colour.

    A picture that is lower than the key is continued downwards in that colour.
    """
    height, width = picture.shape[:2]
    key, unit, (tall, wide) = _layout_beside(height, width, key)
    result = np.empty((tall, wide, 3), np.uint8)
    result[:] = background
    result[:height, :width] = picture
    top = min(round(_MARGIN * unit), tall - math.ceil(key.height * unit))
    left = width + round(_MARGIN * unit)
    _draw_into(result, key, top, left, unit, background)
    return result


def size_beside(height: int, width: int, key: Key) -> tuple[int, int]:
    """Return height and width of what `beside` makes of a picture of this size."""
    return _layout_beside(height, width, key)[2]


def inside(picture: Picture, key: Key, background: Rgb) -> Picture:
    """Return a picture with its key in the lower right corner, on a field of the background.

    Raises:
        OutputError: the picture is too small.
    """
    height, width = picture.shape[:2]
    key, unit = _layout_inside(height, width, key)
    result = picture.copy()
    margin = round(_MARGIN * unit / 2)
    size = math.ceil((key.height + 1) * unit), math.ceil((key.width + 1) * unit)
    top, left = height - margin - size[0], width - margin - size[1]
    result[top : top + size[0], left : left + size[1]] = background
    _draw_into(result, key, top + unit // 2, left + unit // 2, unit, background)
    return result


def size_inside(height: int, width: int, key: Key) -> tuple[int, int]:
    """Return height and width of what `inside` makes of a picture of this size: the same.

    Raises:
        OutputError: the picture is too small.
    """
    _layout_inside(height, width, key)
    return height, width


def _layout_beside(height: int, width: int, key: Key) -> tuple[Key, int, tuple[int, int]]:
    """Return the key as it fits, its unit in pixels, and height and width of both together."""
    margin = 2 * _MARGIN
    unit = unit_of(height, width)
    key = key.fitted(height / unit - margin)
    unit = max(SMALLEST_UNIT, min(unit, int(height / (key.height + margin))))
    strip = math.ceil((key.width + margin) * unit)
    tall = max(height, math.ceil((key.height + margin) * unit))
    return key, unit, (tall, width + strip)


def _layout_inside(height: int, width: int, key: Key) -> tuple[Key, int]:
    """Return the key as it fits, and its unit in pixels."""
    key = key.fitted(height / unit_of(height, width) - 2 * _MARGIN)
    wide, high = key.width + 2 * _MARGIN, key.height + 2 * _MARGIN
    unit = min(unit_of(height, width), int(width / wide), int(height / high))
    if unit < SMALLEST_UNIT:
        least = math.ceil(SMALLEST_UNIT * wide), math.ceil(SMALLEST_UNIT * high)
        raise OutputError(
            f"a picture of {width} x {height} pixels has no room for a legend inside, which takes "
            f"{least[0]} x {least[1]}; use --legend beside"
        )
    return key, unit


def _draw_into(image: Picture, key: Key, top: int, left: int, unit: int, background: Rgb) -> None:
    canvas = np.empty((math.ceil(key.height * unit), math.ceil(key.width * unit), 3), np.uint8)
    canvas[:] = background
    key.draw(canvas, unit, ink_on(background))
    image[top : top + canvas.shape[0], left : left + canvas.shape[1]] = canvas
