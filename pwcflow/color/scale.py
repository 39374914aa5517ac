"""Scales of pictures: of one flow, of many, and of a video whose flows are not all known yet."""

import math
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pwcflow.color.code import SMALLEST_SCALE_PX
from pwcflow.color.vectors import largest_magnitude, row_blocks
from pwcflow.flow_file import Flow, known_pixels

MaxFlow: TypeAlias = float | Literal["frame", "sequence", "percentile"]
"""The motion that is shown fully saturated: in pixels, or the rule by which it is found.

`frame` is each picture's own largest motion, `sequence` the largest of all of them, `percentile`
that which a hundredth of all their known pixels exceeds.
"""

PERCENTILE = 99.0  # the last percent is mostly what went wrong at the edges of objects
_HEADROOM = 1.25
_LARGEST_STEP = 1.05  # between two frames: below what the eye takes for a flicker
_PIXELS_LOOKED_AT = 50_000
# Magnitudes are counted by the first bits of their float32: exponent and 10 bits of the fraction.
# Of one place all lie within a thousandth.
_DROPPED_BITS = 13
_PLACES = 1 << (32 - 1 - _DROPPED_BITS)


def scale_of(flow: Flow, smallest_px: float = SMALLEST_SCALE_PX) -> float:
    """Return the scale in pixels for one flow: its longest vector, but at least `smallest_px`."""
    return max(largest_magnitude(flow), smallest_px)


def name_of_rule(rule: MaxFlow | None) -> str:
    """Return how a scale is found, for a record: the rule, or `fixed` for a number."""
    return rule or "sequence" if isinstance(rule, str | None) else "fixed"


class FoundScale:
    """One scale for flows that are all looked at before the first of them is shown.

    With a number it is that, whatever is added.
    """

    def __init__(self, rule: MaxFlow, smallest_px: float = SMALLEST_SCALE_PX) -> None:
        """Hold the rule, which is not `frame`, and the least scale that is chosen by one."""
        self._rule = rule
        self._found = smallest_px
        self._smallest_px = smallest_px
        self._counts: npt.NDArray[np.int64] | None = None

    def add(self, flow: Flow) -> None:
        """Look at a flow (H, W, 2); only numbers are kept."""
        if self._rule == "sequence":
            self._found = max(self._found, largest_magnitude(flow))
        elif self._rule == "percentile":
            if self._counts is None:
                self._counts = np.zeros(_PLACES, np.int64)
            for rows in row_blocks(flow):
                known = flow[rows][known_pixels(flow[rows])].astype(np.float32)
                lengths = np.hypot(known[:, 0], known[:, 1])
                self._counts += np.bincount(
                    lengths.view(np.uint32) >> _DROPPED_BITS, minlength=_PLACES
                )

    def scale(self) -> float:
        """Return the scale in pixels; a percentile may be a thousandth too large."""
        if isinstance(self._rule, float | int):
            return self._rule
        if self._counts is None or not self._counts.any():
            return self._found
        total = np.cumsum(self._counts)
        place = int(np.searchsorted(total, math.ceil(total[-1] * PERCENTILE / 100)))
        end = np.uint32((place + 1) << _DROPPED_BITS).view(np.float32)
        return max(float(end), self._smallest_px)


def one_scale(flow: Flow, rule: MaxFlow, smallest_px: float = SMALLEST_SCALE_PX) -> float:
    """Return the scale in pixels of a flow that is a sequence of its own."""
    found = FoundScale("sequence" if rule == "frame" else rule, smallest_px)
    found.add(flow)
    return found.scale()


class RunningScale:
    """The magnitude to show fully saturated, frame after frame, without a jump.

    With `sequence` it starts a quarter above the first flow's magnitudes, the fastest percent left
    out, and only ever grows, by at most 5 % a frame, to as much above those of the flow that is
    shown. With `percentile` it does the same without the quarter. So

    - a vector has the same hue in all frames;
    - its saturation is the same in two frames between which nothing moved faster than the scale
      had room for, and so in all frames once the fastest motion has been seen;
    - otherwise it is less in the later frame, by at most 5 % from one frame to the next;
    - a scene that comes to rest fades to white instead of lighting up its noise.

    More is not possible before the last frame is known: a scale that fits the fastest motion
    either knows it from the beginning, as a number does, or has to change when it comes.

    `frame` is each flow's own largest motion, and a number is that number.

    Attributes:
        scales_px: what `update` has returned, frame after frame; empty with a number.
    """

    def __init__(self, rule: MaxFlow = "sequence", smallest_px: float = SMALLEST_SCALE_PX) -> None:
        """Hold the rule, and the least scale that is chosen by it."""
        self.scales_px: list[float] = []
        self._rule = rule
        self._smallest_px = smallest_px

    def update(self, flow: Flow) -> float:
        """Return the scale in pixels for `flow`, (H, W, 2), the next of the sequence."""
        if isinstance(self._rule, float | int):
            return self._rule
        self.scales_px.append(self._next(flow))
        return self.scales_px[-1]

    def _next(self, flow: Flow) -> float:
        if self._rule == "frame":
            return scale_of(flow, self._smallest_px)
        headroom = _HEADROOM if self._rule == "sequence" else 1.0
        wanted = max(_typical_maximum(flow) * headroom, self._smallest_px)
        if not self.scales_px:
            return wanted
        before = self.scales_px[-1]
        return min(max(wanted, before), before * _LARGEST_STEP)


def _typical_maximum(flow: Flow) -> float:
    height, width = flow.shape[:2]
    step = max(1, math.isqrt(height * width // _PIXELS_LOOKED_AT))
    some = flow[::step, ::step]
    known = some[known_pixels(some)]
    if not len(known):
        return 0.0
    return float(np.percentile(np.hypot(known[:, 0], known[:, 1]), PERCENTILE))
