"""Flow as colours: the direction is the hue, the length is the saturation.

Source: Baker et al., "A Database and Evaluation Methodology for Optical Flow", IJCV 2011, and the
program published with it (colorcode.cpp, color_flow.cpp).
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from pwcflow.flow_file import Flow, Mask, known_pixels

SMALLEST_SCALE_PX = 1.0
"""Shorter flows are not stretched to full colour, so the noise of a static scene is white."""

_PIXELS_AT_ONCE = 1 << 15  # the temporaries of so many pixels stay in a core's cache
_DARKENED = np.float32(0.75)


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
    height, width = flow.shape[:2]
    image = np.empty((height, width, 3), np.uint8)
    rows = max(1, _PIXELS_AT_ONCE // max(width, 1))
    for top in range(0, height, rows):
        block = slice(top, top + rows)
        _paint(flow[block], scale, image[block])
    return image


def largest_magnitude(flow: Flow) -> float:
    """Return the length of the longest known vector of a flow (H, W, 2), in pixels; 0.0 if none."""
    *_, magnitude = _known_vectors(flow)
    return float(magnitude.max(initial=0.0))


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


def _paint(flow: Flow, scale: np.float32, image: npt.NDArray[np.uint8]) -> None:
    """Fill `image` with the colours of `flow`: `computeColor` of colorcode.cpp, in arrays."""
    wheel = color_wheel().astype(np.float32) / np.float32(255)
    known, u, v, magnitude = _known_vectors(flow)
    radius = magnitude / scale
    position = (np.arctan2(-v, -u) / np.float32(np.pi) + 1) * np.float32((len(wheel) - 1) / 2)
    lower = position.astype(np.intp)
    fraction = position - lower
    inside = radius <= 1
    for channel in range(3):
        step = np.roll(wheel[:, channel], -1) - wheel[:, channel]
        color = wheel[:, channel].take(lower) + fraction * step.take(lower)
        color = np.where(inside, 1 - radius * (1 - color), color * _DARKENED)
        image[..., channel] = color * 255
    image[~known] = 0


def _known_vectors(flow: Flow) -> tuple[Mask, Flow, Flow, Flow]:
    """Return where a flow is known, and u, v and their length, 0 elsewhere; each (H, W)."""
    known = known_pixels(flow)
    u = np.where(known, flow[..., 0], 0).astype(np.float32, copy=False)
    v = np.where(known, flow[..., 1], 0).astype(np.float32, copy=False)
    return known, u, v, np.sqrt(u * u + v * v)
