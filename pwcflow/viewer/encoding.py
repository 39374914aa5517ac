"""Flows and pictures as a page holds them: small, and decoded by what every browser has.

A flow is rounded to whole steps in int16, each component is predicted from its neighbours (left +
above - above left, which is right wherever motion is affine), and the errors are deflated, low
bytes before high ones. `payload.js` of the page undoes it.
"""

import math
import zlib
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.errors import ImageError
from pwcflow.flow_file import Flow, known_pixels
from pwcflow.image_file import Image, eight_bits
from pwcflow.image_file.opencv import encode

_STEPS_PER_SCALE = 512
"""So many steps are the scale at least: then rounding changes no colour by more than 2 levels."""
_COARSEST_STEP_PX = 1 / 16
_FINEST_STEP_PX = 2.0**-126  # of what float32 holds no flow needs less

UNKNOWN = -(1 << 15)
"""Stands for both components where a flow is unknown."""
_LARGEST = (1 << 15) - 1
_LEVEL = 6
_WEBP_QUALITY = 85


class EncodedFlow(NamedTuple):
    """A flow in few bytes."""

    width: int
    height: int
    step_px: float
    """What 1 stands for; a component is known to half of it."""
    unknown: int
    """How many pixels are."""
    data: bytes
    """zlib's format (RFC 1950)."""


def step_for(scale_px: float) -> float:
    """Return the step in pixels for flows shown to a scale: a power of two, 1/16 px at most."""
    step = min(scale_px / _STEPS_PER_SCALE, _COARSEST_STEP_PX)
    return 2.0 ** math.floor(math.log2(max(step, _FINEST_STEP_PX)))


def encode_flow(flow: Flow, step_px: float) -> EncodedFlow:
    """Return a flow (H, W, 2), in pixels, rounded to whole steps.

    Args:
        flow: the flow; where it is unknown both components become UNKNOWN.
        step_px: the step to round to. It is doubled until the largest component fits.
    """
    known = known_pixels(flow)
    values = np.where(known[..., None], flow, np.float32(0)).astype(np.float64)
    largest = float(np.abs(values).max())
    while largest > step_px * _LARGEST:
        step_px *= 2
    rounded = np.rint(values / step_px).astype(np.int16)
    rounded[~known] = UNKNOWN
    errors = _prediction_errors(np.ascontiguousarray(rounded.transpose(2, 0, 1)))
    low, high = (errors & 0xFF).astype(np.uint8), (errors >> 8).astype(np.uint8)
    data = zlib.compress(low.tobytes() + high.tobytes(), _LEVEL)
    height, width = known.shape
    return EncodedFlow(width, height, step_px, int(known.size - known.sum()), data)


def encode_picture(image: Image, name: str) -> bytes:
    """Return an image (H, W, 3) RGB as a lossy WebP.

    Raises:
        ImageError: WebP cannot hold its size; the message names `name`.
    """
    data = encode(".webp", eight_bits(image), [cv2.IMWRITE_WEBP_QUALITY, _WEBP_QUALITY])
    if data is None:
        raise ImageError(
            f"{name}: a picture of {image.shape[1]} x {image.shape[0]} pixels cannot be put into a "
            "page; give --max-side 4096"
        )
    return data


def sampled(flow: Flow, width: int, height: int) -> Flow:
    """Return a flow at another size: of each cell the vector at its middle, none changed.

    Means would be vectors that the flow does not have, and mix what moves with what does not.
    """
    rows = _middles(flow.shape[0], height)
    columns = _middles(flow.shape[1], width)
    return flow[rows][:, columns]


def _middles(size: int, cells: int) -> npt.NDArray[np.intp]:
    return ((2 * np.arange(cells) + 1) * size // (2 * cells)).astype(np.intp)


def _prediction_errors(planes: npt.NDArray[np.int16]) -> npt.NDArray[np.uint16]:
    """Return the errors of (2, H, W), modulo 2^16, as 0, -1, 1, -2, ... become 0, 1, 2, 3, ..."""
    errors = np.diff(planes, axis=2, prepend=np.int16(0))
    errors = np.diff(errors, axis=1, prepend=np.int16(0))
    return ((errors << 1) ^ (errors >> 15)).view(np.uint16)
