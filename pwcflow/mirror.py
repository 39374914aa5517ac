"""Images and flow with left and right, or top and bottom, exchanged."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pwcflow.flow_file import Flow

Pixels = TypeVar("Pixels", bound=npt.NDArray[Any])


def mirror(image: Pixels, *, horizontally: bool, vertically: bool) -> Pixels:
    """Return an array (H, W, ...) with left and right, or top and bottom, or both, exchanged."""
    rows, columns = (slice(None, None, -1 if swap else 1) for swap in (vertically, horizontally))
    return image[rows, columns].copy()  # type: ignore[return-value]


def mirror_flow(flow: Flow, *, horizontally: bool, vertically: bool) -> Flow:
    """Return the flow (H, W, 2) of two images that are mirrored in the same way.

    What moved to the right moves to the left then, and what moved down moves up.
    """
    signs = np.array((-1 if horizontally else 1, -1 if vertically else 1), np.float32)
    return mirror(flow, horizontally=horizontally, vertically=vertically) * signs
