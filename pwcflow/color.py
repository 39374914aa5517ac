"""Flow as colours: the direction is the hue, the length is the saturation.

Source: Baker et al., "A Database and Evaluation Methodology for Optical Flow", IJCV 2011, and the
program published with it (colorcode.cpp, color_flow.cpp).
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.flow_file import UNKNOWN_ABOVE, Flow, Mask, known_pixels

SMALLEST_SCALE_PX = 1.0
"""Shorter flows are not stretched to full colour, so the noise of a static scene is white."""

_PIXELS_AT_ONCE = 1 << 15  # the temporaries of so many pixels stay in a core's cache
_STEPS = 512  # of the table from one colour of the wheel to the next, which is up to 64 levels off
_DARKENED = 0.75
# The vectors are counted in a unit so small that OpenCV, which adds 2e-16 to a component before it
# divides by it, finds the angle of any. A power of two rounds nothing, and the squares still fit.
_UNITS_PER_PX = np.float32(2**30)
_BITS_OF_NEGATIVE_ZERO = np.iinfo(np.int32).min


def flow_to_color(flow: Flow, max_magnitude_px: float | None = None) -> npt.NDArray[np.uint8]:
    """Return a flow as a colour image, (H, W, 3) uint8 RGB.

    Zero is white, right is red, down is yellow, left is cyan-blue, up is violet. Vectors longer
    than the scale keep their hue and are darkened; unknown pixels (see `known_pixels`) are black.

    Args:
        flow: (H, W, 2), in pixels.
        max_magnitude_px: length of a fully saturated vector. None takes the longest known vector of
            this flow, but at least SMALLEST_SCALE_PX; give one number for all frames of a video, or
            the same motion changes its colour from frame to frame.

    Raises:
        ValueError: the shape is not (H, W, 2), or the scale is not a positive number.
    """
    if flow.ndim != 3 or flow.shape[2] != 2:
        raise ValueError(f"a flow is (H, W, 2), but {flow.shape = }")
    if max_magnitude_px is None:
        max_magnitude_px = max(largest_magnitude(flow), SMALLEST_SCALE_PX)
    if not 0 < max_magnitude_px < np.inf:
        raise ValueError(f"the scale must be a positive number, but {max_magnitude_px = }")
    # Beyond these float32 knows only 0 and infinity; no flow has vectors so short or so long.
    scale = np.float32(min(max(max_magnitude_px, 1e-25), 1e25))
    image = np.empty((*flow.shape[:2], 3), np.uint8)
    for rows in _row_blocks(flow):
        _paint(flow[rows], scale, image[rows])
    return image


def largest_magnitude(flow: Flow) -> float:
    """Return the length of the longest known vector of a flow (H, W, 2), in pixels; 0.0 if none."""
    lengths = [_vectors(flow[rows]).length.max() for rows in _row_blocks(flow)]
    return float(max(lengths, default=np.float32(0)) / _UNITS_PER_PX)


@cache
def color_wheel() -> npt.NDArray[np.uint8]:
    """Return the 55 colours of the wheel, (55, 3) uint8 RGB, from red over yellow to magenta.

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


class _Vectors(NamedTuple):
    """Known vectors and 0 elsewhere, each (H, W) float32, in 1 / _UNITS_PER_PX of a pixel."""

    u: Flow
    v: Flow
    length: Flow
    known: Mask | None
    """Where they are known; None for everywhere, as is usual."""


def _row_blocks(flow: Flow) -> Iterator[slice]:
    """Yield the rows of a flow (H, W, 2), some at a time; none if it has no pixel."""
    height, width = flow.shape[:2]
    if width:
        rows = max(1, _PIXELS_AT_ONCE // width)
        yield from (slice(top, top + rows) for top in range(0, height, rows))


def _vectors(flow: Flow) -> _Vectors:
    parts = np.empty((3, *flow.shape[:2]), np.float32)
    u, v, length = parts
    with np.errstate(over="ignore", invalid="ignore"):  # by the unknown ones
        np.multiply(flow[..., 0], _UNITS_PER_PX, out=u)
        np.multiply(flow[..., 1], _UNITS_PER_PX, out=v)
        np.multiply(u, u, out=length)
        length += v * v
        np.sqrt(length, out=length)
    if length.max() <= UNKNOWN_ABOVE * _UNITS_PER_PX:  # false for NaN
        return _Vectors(u, v, length, None)
    known = known_pixels(flow)
    kept = np.zeros_like(parts)
    for source, target in zip(parts, kept, strict=True):
        cv2.copyTo(source, known.view(np.uint8), target)
    u, v, length = kept
    return _Vectors(u, v, length, known)


def _paint(flow: Flow, scale: np.float32, image: npt.NDArray[np.uint8]) -> None:
    """Fill `image` with the colours of `flow`: `computeColor` of colorcode.cpp, in arrays."""
    u, v, radius, known = _vectors(flow)
    radius /= scale * _UNITS_PER_PX
    shade = None
    if known is not None or radius.max() > 1:
        shade = 1 - np.float32(1 - _DARKENED) * (radius > 1)
        if known is not None:
            shade *= known
        np.minimum(radius, 1, out=radius)
    place = _place_on_wheel(u, v)
    color = u  # u is not needed any more, its memory is
    planes = []
    for lacking in _lacking_to_white():
        lacking.take(place, out=color, mode="clip")
        color *= radius
        np.subtract(255, color, out=color)
        if shade is not None:
            color *= shade
        planes.append(color.astype(np.uint8))
    cv2.merge(planes, image)


@cache
def _lacking_to_white() -> npt.NDArray[np.float32]:
    """Return 255 minus red, green and blue all around the wheel, (3, 54 * _STEPS + 1).

    As in the published program it ends at the last colour and does not come back to the first.
    """
    wheel = color_wheel()
    colors = np.arange(len(wheel))
    places = np.arange((len(wheel) - 1) * _STEPS + 1) / _STEPS
    table = [255 - np.interp(places, colors, channel) for channel in wheel.T]
    return np.array(table, np.float32)


def _place_on_wheel(u: Flow, v: Flow) -> npt.NDArray[np.intp]:
    """Return each direction's column in `_lacking_to_white`; `v` is overwritten."""
    bits = v.view(np.int32)
    if bits.min() == _BITS_OF_NEGATIVE_ZERO:
        # To the right, where the wheel's ends meet, its sign decides; OpenCV does not look at it.
        np.copyto(v, -np.finfo(np.float32).tiny, where=bits == _BITS_OF_NEGATIVE_ZERO)
    place = v
    cv2.phase(u, v, place)  # from 0, right, over down to 2 pi
    place *= (len(color_wheel()) - 1) * _STEPS / (2 * np.pi)
    place += 0.5
    return place.astype(np.intp)
