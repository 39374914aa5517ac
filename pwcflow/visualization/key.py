"""What explains a picture: a wheel, a colour bar, an arrow."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import cv2
import numpy as np

from pwcflow.color import ColorCode, flow_to_color
from pwcflow.color.palette import Rgb
from pwcflow.visualization.scene import Picture
from pwcflow.visualization.text import draw_text, number, text_width

SMALLEST_UNIT = 8
"""Height of capitals in pixels below which nobody reads them."""

MOST_TICKS = 7
"""Numbers beside a bar that grows evenly."""

DrawArrow: TypeAlias = Callable[[Picture, tuple[float, float], float, Rgb, Rgb], None]
"""Draws an arrow to the right: image, its middle, the distance of arrows, its colour, the ink."""

_UNITS_IN_A_PICTURE = 56  # in the side of a square of as many pixels: 12 px in 1024 x 436


class Key(ABC):
    """Explains colours or arrows. All its lengths are in units, the height of a capital."""

    width: float
    height: float

    def fitted(self, height: float) -> "Key":
        """Return this key for a picture of so many units in height, if it can be lower."""
        del height
        return self

    @abstractmethod
    def draw(self, canvas: Picture, unit: int, ink: Rgb) -> None:
        """Draw into a canvas of `height` by `width` units of one colour, with lines in `ink`."""


@dataclass(frozen=True)
class WheelKey(Key):
    """The circle of colours, the motion at its rim, and a bar that shows the picture's size."""

    code: ColorCode
    scale_px: float
    bar_px: int
    """The length of the bar, in pixels of the picture at its size."""
    width: float = 11.0
    height: float = 14.4

    def draw(self, canvas: Picture, unit: int, ink: Rgb) -> None:
        """Draw the wheel, and below it its radius and the bar."""
        radius = 4.5 * unit
        center = canvas.shape[1] / 2 - 0.5, radius + unit * 0.25
        _draw_disc(canvas, center, radius, self.code, self.scale_px, ink)
        text = f"radius {number(self.scale_px)} px"
        _centered(canvas, text, 11.2 * unit, unit, ink)
        _draw_bar(canvas, self.bar_px, 12.4 * unit, unit, ink)


@dataclass(frozen=True)
class ArrowKey(Key):
    """An arrow as long as the picture's longest, and the motion it stands for."""

    draw_arrow: DrawArrow
    color: Rgb
    spacing: int
    scale_px: float
    bar_px: int
    width: float = 9.0
    height: float = 7.8

    def draw(self, canvas: Picture, unit: int, ink: Rgb) -> None:
        """Draw the arrow as it is in the picture, unless it is too large, and the bar."""
        size = min(self.spacing, 6 * unit)
        self.draw_arrow(canvas, (canvas.shape[1] / 2 - 0.5, 1.6 * unit), size, self.color, ink)
        _centered(canvas, f"{number(self.scale_px)} px", 4.4 * unit, unit, ink)
        _draw_bar(canvas, self.bar_px, 5.8 * unit, unit, ink)


@dataclass(frozen=True)
class BarKey(Key):
    """A bar of colours with numbers beside it."""

    colors: Picture
    """(N, 1, 3) from the bottom up."""
    ticks: Sequence[tuple[float, str]]
    """Places from 0, the bottom, to 1, and what is written there."""
    title: str
    smooth: bool
    width: float = 7.5
    height: float = 22.0

    def fitted(self, height: float) -> "Key":
        """Return a bar that is lower where the picture is, as far as its numbers allow."""
        # The scale of a video changes, and with it the numbers, but no picture's size may.
        least = 3.4 + 1.4 * (max(len(self.ticks), MOST_TICKS) + 1)
        return replace(self, height=min(max(height, least), self.height))

    def draw(self, canvas: Picture, unit: int, ink: Rgb) -> None:
        """Draw the bar, its numbers, and the title above."""
        top, bottom = round(2.6 * unit), round((self.height - 0.8) * unit)
        left, right = round(0.4 * unit), round(2.2 * unit)
        draw_text(canvas, self.title, left, 1.2 * unit, unit, ink)
        how = cv2.INTER_LINEAR if self.smooth else cv2.INTER_NEAREST
        size = right - left, bottom - top
        canvas[top:bottom, left:right] = cv2.resize(self.colors[::-1], size, interpolation=how)
        line = max(1, unit // 10)
        cv2.rectangle(canvas, (left, top), (right - 1, bottom - 1), ink, line)
        for place, text in self.ticks:
            y = round(bottom - 1 - place * (bottom - top - 1))
            cv2.line(canvas, (right, y), (right + unit // 3, y), ink, line)
            draw_text(canvas, text, right + 0.7 * unit, y + unit / 2, unit, ink)


def unit_of(height: int, width: int) -> int:
    """Return the usual unit, in pixels, of the key of a picture of this size."""
    return max(SMALLEST_UNIT, round(math.sqrt(height * width) / _UNITS_IN_A_PICTURE))


def bar_length(height: int, width: int) -> int:
    """Return a round number of pixels, 1, 2 or 5 times a power of ten, to show a size by."""
    return max(1, int(_round_down(6.5 * unit_of(height, width))))


def round_ticks(largest: float) -> list[float]:
    """Return the multiples of a round number from 0 to `largest`, 3 to MOST_TICKS of them."""
    step = _round_down(largest / 2.5)
    return [step * index for index in range(int(largest / step + 1e-6) + 1)]


def ink_on(background: Rgb) -> Rgb:
    """Return the colour of lines and letters that is readable on a background."""
    return (0, 0, 0) if sum(background) > 382 else (255, 255, 255)


def _round_down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return power * next(digit for digit in (5, 2, 1) if digit * power <= value * (1 + 1e-9))


def _draw_disc(
    canvas: Picture,
    center: tuple[float, float],
    radius: float,
    code: ColorCode,
    scale_px: float,
    ink: Rgb,
) -> None:
    """Draw the colours of all vectors up to the scale, as a disc with a ring around it."""
    rows, columns = np.indices(canvas.shape[:2], np.float32)
    vectors = np.stack([columns - center[0], rows - center[1]], -1)
    distance = np.hypot(vectors[..., 0], vectors[..., 1])
    # What lies a little outside has to have the colour of the rim, not the mark of the faster.
    vectors *= (np.minimum(distance, radius * 0.9999) / np.maximum(distance, 1e-6))[..., None]
    colors = flow_to_color(vectors * np.float32(scale_px / radius), scale_px, code)
    cover = np.clip(radius + 0.5 - distance, 0, 1)[..., None]
    canvas[:] = (canvas + cover * (colors.astype(np.float32) - canvas) + 0.5).astype(np.uint8)
    _ring(canvas, center, radius, ink)


def _ring(canvas: Picture, center: tuple[float, float], radius: float, ink: Rgb) -> None:
    bits = 4
    place = round(center[0] * 2**bits), round(center[1] * 2**bits)
    line = max(1, round(radius / 40))
    cv2.circle(canvas, place, round(radius * 2**bits), ink, line, cv2.LINE_AA, bits)


def _centered(canvas: Picture, text: str, baseline: float, unit: int, ink: Rgb) -> None:
    wide = text_width(text, unit)
    size = unit * min(1.0, 0.95 * canvas.shape[1] / wide)  # numbers such as 1.23e+08 are long
    draw_text(canvas, text, (canvas.shape[1] - text_width(text, size)) / 2, baseline, size, ink)


def _draw_bar(canvas: Picture, length: int, top: float, unit: int, ink: Rgb) -> None:
    """Draw a bar as long as so many pixels of the picture, and how many these are."""
    left = (canvas.shape[1] - length) // 2
    thick = max(1, round(unit / 5))
    y = round(top)
    canvas[y : y + thick, max(0, left) : left + length] = ink
    for x in (left, left + length - thick):
        canvas[y - thick : y + 2 * thick, max(0, x) : x + thick] = ink
    _centered(canvas, f"{length} px", top + 1.8 * unit, unit, ink)
