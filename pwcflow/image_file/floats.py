"""Pictures of floats: what is black and white in them, and what a network may see."""

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pwcflow.errors import ImageError

Floats: TypeAlias = npt.NDArray[np.float32]

_ROUNDING = 0.5 / 255  # what writers leave beyond black and white by rounding
_LINEAR_UP_TO = 0.0031308  # this and the rest of the curve: IEC 61966-2-1


def displayed(path: Path, light: npt.NDArray[Any]) -> Floats:
    """Return scene-linear light (H, W, 3) as a viewer shows it: by sRGB's curve, 0..1.

    The network has learned from pictures as they are displayed; in linear light its dark half
    would nearly be black. What is brighter than white becomes white, and less than black black.

    Raises:
        ImageError: a number is not finite.
    """
    _finite_range(path, light)
    linear = light.astype(np.float32).clip(0, 1)
    curved = np.float32(1.055) * linear ** np.float32(1 / 2.4) - np.float32(0.055)
    return np.where(linear <= _LINEAR_UP_TO, linear * np.float32(12.92), curved).clip(0, 1)


def from_0_to_1(path: Path, image: npt.NDArray[Any]) -> Floats:
    """Return a picture of floats as float32, which must be from 0, black, to 1, white.

    Raises:
        ImageError: they are not, or a number is not finite.
    """
    low, high = _finite_range(path, image)
    if low < -_ROUNDING or high > 1 + _ROUNDING:
        raise ImageError(
            f"{path} holds numbers from {low:g} to {high:g}, but floats must be from 0, black, to "
            "1, white; scale or clip them, or save it with 8 or 16 bits"
        )
    floats = image.astype(np.float32, copy=False)
    return floats if low >= 0 and high <= 1 else floats.clip(0, 1)


def rgb_of(path: Path, channels: dict[str, Floats]) -> Floats:
    """Return the colours (H, W, 3) among the channels of an EXR: its own, or its first layer's.

    Gray, Y or a channel that is alone, becomes three equal channels.

    Raises:
        ImageError: there are none.
    """
    layers = [name.removesuffix("R") for name in channels if name.endswith("R")]
    for layer in sorted(layers, key=lambda layer: layer != ""):
        names = [layer + color for color in "RGB"]
        if all(name in channels for name in names):
            return np.stack([channels[name] for name in names], axis=2)
    gray = "Y" if "Y" in channels else next(iter(channels), "")
    if gray == "Y" or len(channels) == 1:
        return np.repeat(channels[gray][..., None], 3, axis=2)
    raise ImageError(
        f"{path} has no colours: its channels are {', '.join(channels) or 'none'}; save it with "
        "R, G and B"
    )


def _finite_range(path: Path, image: npt.NDArray[Any]) -> tuple[float, float]:
    """Return the least and the greatest number, or say where one is not finite."""
    low, high = float(image.min()), float(image.max())  # NaN if there is one
    if np.isfinite([low, high]).all():
        return low, high
    wrong = ~np.isfinite(image).all(axis=2)
    count = np.count_nonzero(wrong)
    y, x = np.argwhere(wrong)[0]
    pixels = "1 pixel that is" if count == 1 else f"{count} pixels that are"
    raise ImageError(
        f"{path} has {pixels} not finite, the first at x = {x}, y = {y}: {image[y, x].tolist()}; "
        "replace what is nan or inf with numbers"
    )
