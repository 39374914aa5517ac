"""The colours that stand for the directions of motion, all around the circle."""

from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

PaletteName: TypeAlias = Literal["middlebury", "colorblind"]
Rgb: TypeAlias = tuple[int, int, int]

STEPS = 512  # of a rim from one of the 55 colours to the next, which is up to 64 levels off
COLORS = 55

# The circle of directions in CIELAB: left and right differ in the one hue that no colour blindness
# takes away, up and down in lightness. As wide as sRGB allows, nearly.
_MIDDLE_LIGHTNESS = 57.0
_LIGHTNESS_RANGE = 32.0
_ORANGE = (32.0, 52.0)  # a*, b*
_BLUE = (3.0, -46.0)
# CIE 15: the white D65 and the linear parts of L*; IEC 61966-2-1: the primaries and curve of sRGB.
_WHITE = np.array([0.95047, 1.0, 1.08883])
_XYZ_TO_RGB = np.array(
    [
        [3.2404542, -1.5371385, -0.4985314],
        [-0.9692660, 1.8760108, 0.0415560],
        [0.0556434, -0.2040259, 1.0572252],
    ]
)


class Palette(NamedTuple):
    """Colours by direction, and the colour of no motion if it is not for the user to choose."""

    rim: npt.NDArray[np.float64]
    """(54 * STEPS + 1, 3) RGB, 0 to 255, clockwise on the screen from right, over down."""
    center: Rgb | None
    """Of no motion; None where white and black both do."""


@cache
def palette(name: PaletteName) -> Palette:
    """Return a palette by its name.

    `middlebury` is the wheel of `color_wheel`. As in the published program its rim ends at the
    last colour and does not come back to the first.

    `colorblind` is our own: right is orange, left blue, up light, down dark, and no motion gray.
    Who lacks one kind of cone sees a plane of colours, lightness and one hue, and a vector needs
    two numbers: so this is the circle in that plane, and its middle has to be a gray. In CIELAB
    it is L* = 57 - 32 v, and (a*, b*) = u (32, 52) for u > 0, -u (3, -46) for u < 0, for a unit
    vector (u, v); what sRGB does not hold is clipped.
    """
    places = np.arange((COLORS - 1) * STEPS + 1) / STEPS
    if name == "middlebury":
        colors = np.arange(COLORS)
        rim = np.stack([np.interp(places, colors, channel) for channel in color_wheel().T], 1)
        return Palette(_fixed(rim), None)
    angle = places * (2 * np.pi / (COLORS - 1))
    u, v = np.cos(angle)[:, None], np.sin(angle)[:, None]
    hue = np.maximum(u, 0) * _ORANGE + np.maximum(-u, 0) * _BLUE
    rim = _lab_to_rgb(np.concatenate([_MIDDLE_LIGHTNESS - _LIGHTNESS_RANGE * v, hue], 1))
    (gray,) = _lab_to_rgb(np.array([[_MIDDLE_LIGHTNESS, 0.0, 0.0]])).round().astype(int).tolist()
    return Palette(_fixed(rim), tuple(gray))


@cache
def color_wheel() -> npt.NDArray[np.uint8]:
    """Return the 55 colours of Middlebury's wheel, (55, 3) uint8 RGB, from red over yellow.

    Source: `makecolorwheel` of colorcode.cpp: six ramps between two corners of the RGB cube.
    """
    ramps = [(15, 1, 1), (6, 0, -1), (4, 2, 1), (11, 1, -1), (13, 0, 1), (6, 2, -1)]
    wheel = []
    color = [255, 0, 0]
    for steps, channel, direction in ramps:
        for step in range(steps):
            ramp = 255 * step // steps
            color[channel] = ramp if direction > 0 else 255 - ramp
            wheel.append(tuple(color))
        color[channel] = 255 if direction > 0 else 0
    table = np.array(wheel, np.uint8)
    table.setflags(write=False)
    return table


def _lab_to_rgb(lab: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return CIELAB (N, 3) as sRGB from 0 to 255, clipped."""
    y = (lab[:, 0] + 16) / 116
    t = np.stack([y + lab[:, 1] / 500, y, y - lab[:, 2] / 200], 1)
    xyz = _WHITE * np.where(t > 6 / 29, t**3, 3 * (6 / 29) ** 2 * (t - 4 / 29))
    linear = np.clip(xyz @ _XYZ_TO_RGB.T, 0, 1)
    curve = 1.055 * linear ** (1 / 2.4) - 0.055
    rgb: npt.NDArray[np.float64] = 255 * np.where(linear > 0.0031308, curve, 12.92 * linear)
    return rgb


def _fixed(rim: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    rim.setflags(write=False)
    return rim
