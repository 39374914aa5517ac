"""Text in pictures, through OpenCV, at any size."""

import cv2

from pwcflow.color.palette import Rgb
from pwcflow.visualization.scene import Picture

_FONT = cv2.FONT_HERSHEY_SIMPLEX
# OpenCV 5 writes with a TrueType font, whose thickness is its weight; before, with strokes.
_TRUETYPE = hasattr(cv2, "FontFace")
_AT_SCALE_1 = 21  # pixels from the baseline to the top of a capital, of both fonts


def text_width(text: str, height: float) -> int:
    """Return the width in pixels of a line whose capitals are `height` pixels high."""
    return int(cv2.getTextSize(text, _FONT, _font_scale(height), _thickness(height))[0][0])


def draw_text(
    image: Picture,
    text: str,
    left: float,
    baseline: float,
    height: float,
    color: Rgb,
    around: Rgb | None = None,
) -> None:
    """Write a line into an image, whose capitals are `height` pixels high.

    Args:
        image: is changed.
        text: ASCII only, as OpenCV before 5 knows no more.
        left: where the line begins, in pixels.
        baseline: on what the letters stand, in pixels.
        height: of capitals and digits.
        color: of the letters.
        around: of a rim around them, which makes them readable on anything; none when None.
    """
    place = (round(left), round(baseline))
    thickness = _thickness(height)
    scale = _font_scale(height)
    if around is not None:
        reach = max(1, round(height / 8))
        steps = [(x, y) for x in (-reach, 0, reach) for y in (-reach, 0, reach)]
        for x, y in steps:
            shifted = (place[0] + x, place[1] + y)
            cv2.putText(image, text, shifted, _FONT, scale, around, thickness, cv2.LINE_AA)
    cv2.putText(image, text, place, _FONT, scale, color, thickness, cv2.LINE_AA)


def number(value: float) -> str:
    """Return a number of pixels as people write it: three digits, and no zeros behind a point."""
    if value >= 1e5 or (0 < value < 1e-3):
        return f"{value:.2e}"
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _font_scale(height: float) -> float:
    return height / _AT_SCALE_1


def _thickness(height: float) -> int:
    return 1 if _TRUETYPE else max(1, round(height / 11))
