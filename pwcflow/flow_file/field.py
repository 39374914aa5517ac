"""A flow field in memory, and where it is known."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Flow: TypeAlias = npt.NDArray[np.float32]
Mask: TypeAlias = npt.NDArray[np.bool_]
Size: TypeAlias = tuple[int, int]
"""Height and width in pixels."""

UNKNOWN_ABOVE = 1e9  # UNKNOWN_FLOW_THRESH of the Middlebury code (flowIO.h)


def known_pixels(flow: Flow) -> Mask:
    """Return where a flow (H, W, 2) is known, as bool (H, W): finite, and neither |value| > 1e9.

    Source: `unknown_flow` of the Middlebury code (flowIO.cpp).
    """
    small: Mask = np.abs(flow) <= UNKNOWN_ABOVE  # false for NaN
    return small[..., 0] & small[..., 1]


def as_flow(values: npt.NDArray[np.floating]) -> Flow:
    """Return floats of any size as a flow in one piece; too large for float32 becomes inf."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(values, np.float32)
