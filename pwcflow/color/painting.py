"""Flow as a picture: the direction is the hue, the length is the saturation.

Source: Baker et al., "A Database and Evaluation Methodology for Optical Flow", IJCV 2011, and the
program published with it (colorcode.cpp, color_flow.cpp).
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.color.code import MIDDLEBURY, ColorCode
from pwcflow.color.palette import COLORS, STEPS, PaletteName, palette
from pwcflow.color.scale import scale_of
from pwcflow.color.vectors import UNITS_PER_PX, row_blocks, vectors_of
from pwcflow.flow_file import Flow, Mask

Paint: TypeAlias = Callable[[Flow, float | None, ColorCode], npt.NDArray[np.uint8]]
"""`flow_to_color`, or what paints the same elsewhere."""

DARKENED = 0.75
"""What is left of a colour beyond the scale; on black, of what it lacks of white."""
_BITS_OF_NEGATIVE_ZERO = np.iinfo(np.int32).min


def flow_to_color(
    flow: Flow, max_magnitude_px: float | None = None, code: ColorCode = MIDDLEBURY
) -> npt.NDArray[np.uint8]:
    """Return a flow as a colour image, (H, W, 3) uint8 RGB.

    Zero is white, right is red, down is yellow, left is cyan-blue, up is violet. Vectors longer
    than the scale keep their hue and are darkened; unknown pixels (see `known_pixels`) are black.
    All this is so unless `code` says otherwise.

    Args:
        flow: (H, W, 2), in pixels.
        max_magnitude_px: length of a fully saturated vector. None takes the longest known vector of
            this flow, but at least `code.smallest_scale_px`; give one number for all frames of a
            video, or the same motion changes its colour from frame to frame.
        code: how vectors become colours.

    Raises:
        ValueError: the shape is not (H, W, 2), or the scale is not a positive number above the
            noise floor.
    """
    scale = checked_scale(flow, max_magnitude_px, code)
    image = np.empty((*flow.shape[:2], 3), np.uint8)
    for rows in row_blocks(flow):
        _paint(flow[rows], scale, code, image[rows])
    return image


def flow_over_image(
    flow: Flow,
    image: npt.NDArray[np.uint8],
    opacity: float,
    max_magnitude_px: float | None = None,
    code: ColorCode = MIDDLEBURY,
) -> npt.NDArray[np.uint8]:
    """Return the colours of a flow over an image: the image takes the place of no motion's colour.

    A pixel is `image + opacity * saturation * (rim - image)`, where `rim` is the colour of its
    direction, and `saturation` grows from 0 at rest to 1 at the scale. An unknown pixel is
    `image + opacity * (unknown - image)`.

    Args:
        flow: (H, W, 2), in pixels.
        image: (H, W, 3) uint8 RGB.
        opacity: 0 to 1.
        max_magnitude_px: as for `flow_to_color`.
        code: how vectors become colours; its background is not used.

    Returns:
        (H, W, 3) uint8 RGB.

    Raises:
        ValueError: as `flow_to_color`, or the shapes differ.
    """
    scale = checked_scale(flow, max_magnitude_px, code)
    if image.shape != (*flow.shape[:2], 3):
        raise ValueError(f"an image over a flow has its size, but {image.shape = }")
    result = np.empty_like(image)
    for rows in row_blocks(flow):
        _paint_over(flow[rows], scale, code, image[rows], opacity, result[rows])
    return result


def drawable_scale(scale_px: float) -> float:
    """Return a scale that float32 can be divided by: 1e-25 to 1e25 px.

    Beyond these it knows only 0 and infinity; no flow has vectors so short or so long.
    """
    return min(max(scale_px, 1e-25), 1e25)


def checked_scale(flow: Flow, max_magnitude_px: float | None, code: ColorCode) -> float:
    """Return the scale in pixels that `flow_to_color` divides by; see there for the errors."""
    if flow.ndim != 3 or flow.shape[2] != 2:
        raise ValueError(f"a flow is (H, W, 2), but {flow.shape = }")
    if max_magnitude_px is None:
        max_magnitude_px = scale_of(flow, code.smallest_scale_px)
    if not code.noise_floor_px < max_magnitude_px < np.inf:
        raise ValueError(
            f"the scale must be a positive number above the noise floor, but {max_magnitude_px = }"
        )
    return drawable_scale(max_magnitude_px)


class _Polar(NamedTuple):
    """Where the vectors are in the circle of colours, each (H, W)."""

    place: npt.NDArray[np.intp]
    """The direction, as an index along the rim."""
    radius: Flow
    """From 0 at no motion to 1 at the rim."""
    beyond: Mask | None
    """Where they are longer than the scale; None for nowhere."""
    known: Mask | None
    spare: Flow
    """Memory that is not needed any more."""


def _polar(flow: Flow, scale: float, code: ColorCode) -> _Polar:
    u, v, radius, known = vectors_of(flow)
    radius /= np.float32(scale) * UNITS_PER_PX
    beyond = None
    if known is not None or radius.max() > 1:
        beyond = radius > 1
        np.minimum(radius, 1, out=radius)
    if floor := np.float32(code.noise_floor_px / scale):
        radius -= floor
        np.maximum(radius, 0, out=radius)
        radius /= 1 - floor
    if code.gamma != 1:
        cv2.pow(radius, 1 / code.gamma, radius)
    return _Polar(_place_on_wheel(u, v), radius, beyond, known, u)


def _paint(flow: Flow, scale: float, code: ColorCode, image: npt.NDArray[np.uint8]) -> None:
    """Fill `image` with the colours of `flow`: `computeColor` of colorcode.cpp, in arrays."""
    place, radius, beyond, known, color = _polar(flow, scale, code)
    still = code.still[0]
    towards, shade = 0, None  # what it is darkened, or on black lightened, to
    if beyond is not None and code.marks_beyond:
        towards = 255 - still
        shade = 1 - np.float32(1 - DARKENED) * beyond
    planes = []
    for lacking in lacking_on_rim(code.palette, still):
        lacking.take(place, out=color, mode="clip")
        color *= radius
        np.subtract(still, color, out=color)
        if shade is not None:
            if towards:
                color -= towards
            color *= shade
            if towards:
                color += towards
        planes.append(color.astype(np.uint8))
    cv2.merge(planes, image)
    if known is not None:
        image[~known] = code.unknown_color


def _paint_over(
    flow: Flow,
    scale: float,
    code: ColorCode,
    below: npt.NDArray[np.uint8],
    opacity: float,
    image: npt.NDArray[np.uint8],
) -> None:
    """Fill `image` with the colours of `flow` over `below`."""
    place, radius, beyond, known, color = _polar(flow, scale, code)
    shade = None
    if beyond is not None and code.marks_beyond:
        shade = 1 - np.float32(1 - DARKENED) * beyond
    if known is not None:
        radius[~known] = 1
    radius *= np.float32(opacity)
    planes = []
    rims = lacking_on_rim(code.palette, 0)
    for lacking, under, unknown in zip(rims, cv2.split(below), code.unknown_color, strict=True):
        lacking.take(place, out=color, mode="clip")
        np.negative(color, out=color)
        if shade is not None:
            color *= shade
        if known is not None:
            color[~known] = unknown
        color -= under
        color *= radius
        color += under
        color += 0.5
        planes.append(color.astype(np.uint8))
    cv2.merge(planes, image)


@cache
def lacking_on_rim(name: PaletteName, still: int) -> npt.NDArray[np.float32]:
    """Return the gray `still` minus red, green and blue all around a palette's rim, (3, N).

    A direction's column is its angle clockwise from right, in turns, times N - 1, rounded.
    """
    return np.ascontiguousarray(still - palette(name).rim.T, np.float32)


def _place_on_wheel(u: Flow, v: Flow) -> npt.NDArray[np.intp]:
    """Return each direction's column in `lacking_on_rim`; `v` is overwritten."""
    bits = v.view(np.int32)
    if bits.min() == _BITS_OF_NEGATIVE_ZERO:
        # To the right, where the wheel's ends meet, its sign decides; OpenCV does not look at it.
        np.copyto(v, -np.finfo(np.float32).tiny, where=bits == _BITS_OF_NEGATIVE_ZERO)
    place = v
    cv2.phase(u, v, place)  # from 0, right, over down to 2 pi
    place *= (COLORS - 1) * STEPS / (2 * np.pi)
    place += 0.5
    return place.astype(np.intp)
