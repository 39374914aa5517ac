"""Scales of colour pictures: of one flow, and of a video whose flows are not all known yet."""

import math

import numpy as np

from pwcflow.color import SMALLEST_SCALE_PX, largest_magnitude
from pwcflow.flow_file import Flow, known_pixels

_PERCENTILE = 99.0  # the last percent is mostly what went wrong at the edges of objects
_HEADROOM = 1.25
_LARGEST_STEP = 1.05  # between two frames: below what the eye takes for a flicker
_PIXELS_LOOKED_AT = 50_000


def scale_of(flow: Flow) -> float:
    """Return the scale in pixels for one flow: its longest vector, but at least 1 px."""
    return max(largest_magnitude(flow), SMALLEST_SCALE_PX)


class RunningScale:
    """The magnitude to show fully saturated, frame after frame, without a jump.

    It starts a quarter above the first flow's magnitudes, the fastest percent left out, and only
    ever grows, by at most 5 % a frame: a vector keeps its colour once the fastest motion has been
    seen, and a scene that comes to rest fades to white instead of lighting up its noise.
    """

    def __init__(self) -> None:
        """Start without a scale."""
        self._scale_px: float | None = None

    def update(self, flow: Flow) -> float:
        """Return the scale in pixels for `flow`, (H, W, 2), the next of the sequence."""
        wanted = max(_typical_maximum(flow) * _HEADROOM, SMALLEST_SCALE_PX)
        if self._scale_px is None:
            self._scale_px = wanted
        elif wanted > self._scale_px:
            self._scale_px = min(wanted, self._scale_px * _LARGEST_STEP)
        return self._scale_px


def _typical_maximum(flow: Flow) -> float:
    height, width = flow.shape[:2]
    step = max(1, math.isqrt(height * width // _PIXELS_LOOKED_AT))
    some = flow[::step, ::step]
    known = some[known_pixels(some)]
    if not len(known):
        return 0.0
    return float(np.percentile(np.hypot(known[:, 0], known[:, 1]), _PERCENTILE))
