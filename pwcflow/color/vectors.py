"""The vectors of a flow, some rows at a time: their lengths, and which of them are known."""

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np

from pwcflow.flow_file import UNKNOWN_ABOVE, Flow, Mask, known_pixels

_PIXELS_AT_ONCE = 1 << 15  # the temporaries of so many pixels stay in a core's cache
# The vectors are counted in a unit so small that OpenCV, which adds 2e-16 to a component before it
# divides by it, finds the angle of any. A power of two rounds nothing, and the squares still fit.
UNITS_PER_PX = np.float32(2**30)


class Vectors(NamedTuple):
    """Known vectors and 0 elsewhere, each (H, W) float32, in 1 / UNITS_PER_PX of a pixel."""

    u: Flow
    v: Flow
    length: Flow
    known: Mask | None
    """Where they are known; None for everywhere, as is usual."""


def row_blocks(flow: Flow) -> Iterator[slice]:
    """Yield the rows of a flow (H, W, 2), some at a time; none if it has no pixel."""
    height, width = flow.shape[:2]
    if width:
        rows = max(1, _PIXELS_AT_ONCE // width)
        yield from (slice(top, min(top + rows, height)) for top in range(0, height, rows))


def vectors_of(flow: Flow) -> Vectors:
    """Return the vectors of a flow (H, W, 2) in pixels, of at least one pixel."""
    parts = np.empty((3, *flow.shape[:2]), np.float32)
    u, v, length = parts
    with np.errstate(over="ignore", invalid="ignore"):  # by the unknown ones
        np.multiply(flow[..., 0], UNITS_PER_PX, out=u)
        np.multiply(flow[..., 1], UNITS_PER_PX, out=v)
        np.multiply(u, u, out=length)
        length += v * v
        np.sqrt(length, out=length)
    if length.max() <= UNKNOWN_ABOVE * UNITS_PER_PX:  # false for NaN
        return Vectors(u, v, length, None)
    known = known_pixels(flow)
    kept = np.zeros_like(parts)
    for source, target in zip(parts, kept, strict=True):
        cv2.copyTo(source, known.view(np.uint8), target)
    u, v, length = kept
    return Vectors(u, v, length, known)


def largest_magnitude(flow: Flow) -> float:
    """Return the length of the longest known vector of a flow (H, W, 2), in pixels; 0.0 if none."""
    lengths = [vectors_of(flow[rows]).length.max() for rows in row_blocks(flow)]
    return float(max(lengths, default=np.float32(0)) / UNITS_PER_PX)
