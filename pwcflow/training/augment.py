"""Random changes to a real pair: other scales, crops, mirrorings and colours, the flow following.

Coordinates are pixels, and the centre of the first one is at (0, 0), so that scaling by s takes x
to (x + 1/2) s - 1/2.
"""

from dataclasses import dataclass
from typing import cast

import cv2
import numpy as np
import numpy.typing as npt

from pwcflow.flow_file import Flow, Mask
from pwcflow.mirror import mirror, mirror_flow
from pwcflow.training.randomness import Rng

Image8 = npt.NDArray[np.uint8]

_WHOLLY_KNOWN = 0.999
"""Share of an interpolated flow that must be known, but for rounding."""


@dataclass(frozen=True)
class Sample:
    """Two images and the true flow from the first to the second, all of one size."""

    first: Image8
    """(H, W, 3) RGB."""
    second: Image8
    flow: Flow
    """(H, W, 2), pixels; 0 where not valid."""
    valid: Mask
    """(H, W), where the flow is known."""


@dataclass(frozen=True)
class AugmentSettings:
    """How much pairs are changed. Factors are 2 to a power, uniform in the range given for it."""

    height: int = 384
    width: int = 512
    scale: tuple[float, float] = (-0.2, 0.6)
    stretch: float = 0.2
    """Most by which the scale of each axis differs from the common one, as a power of 2."""
    scaled: float = 0.8
    """Share of pairs that are scaled; the others are only made to cover the crop."""
    mirrored: float = 0.5
    """Share of pairs with left and right exchanged."""
    upturned: float = 0.1
    """Share of pairs with top and bottom exchanged."""
    brightness: float = 0.3
    contrast: float = 0.4
    gamma: float = 0.4
    colour: float = 0.15
    """Most by which the gain of red, green and blue differs, as a power of 2."""
    asymmetric: float = 0.2
    """Share of pairs whose images change colour each on its own."""
    erased: float = 0.3
    """Share of pairs with a rectangle of the second image blotted out: flow into the unseen."""


def augment(sample: Sample, rng: Rng, s: AugmentSettings, *, sparse: bool = False) -> Sample:
    """Return a random variant of a pair, of the size in the settings.

    Args:
        sample: the pair, of any size; one too small is scaled up.
        rng: where the randomness comes from.
        s: how much is changed.
        sparse: the flow is known at scattered pixels, which are moved and not interpolated.
    """
    size = scaled_size(sample.flow.shape[:2], rng, s)
    sample = resize(sample, size, sparse=sparse)
    top = int(rng.integers(0, size[0] - s.height + 1))
    left = int(rng.integers(0, size[1] - s.width + 1))
    sample = crop(sample, top, left, s.height, s.width)
    mirrored, upturned = rng.random(2) < (s.mirrored, s.upturned)
    sample = flip(sample, horizontally=bool(mirrored), vertically=bool(upturned))
    first, second = recolour(sample.first, sample.second, rng, s)
    if rng.random() < s.erased:
        second = erase(second, rng)
    return Sample(first, second, sample.flow, sample.valid)


def scaled_size(size: tuple[int, ...], rng: Rng, s: AugmentSettings) -> tuple[int, int]:
    """Return a random height and width for a pair of some size, no less than the crop's."""
    scaled = rng.random() < s.scaled
    power = rng.uniform(*s.scale) * scaled
    powers = rng.uniform(-s.stretch, s.stretch, 2) * scaled
    least = max(s.height / size[0], s.width / size[1])
    height, width = max(2.0**power, least) * 2.0**powers * size
    return max(s.height, round(height)), max(s.width, round(width))


def resize(sample: Sample, size: tuple[int, int], *, sparse: bool = False) -> Sample:
    """Return a pair at another height and width, its flow in the new pixels."""
    before = sample.flow.shape[:2]
    if size == before:
        return sample
    flow, valid = (_scatter if sparse else _interpolate)(sample.flow, sample.valid, size)
    flow *= np.array((size[1] / before[1], size[0] / before[0]), np.float32)
    return Sample(_resized(sample.first, size), _resized(sample.second, size), flow, valid)


def crop(sample: Sample, top: int, left: int, height: int, width: int) -> Sample:
    """Return a rectangle of a pair, the same one of both images."""
    part = (slice(top, top + height), slice(left, left + width))
    return Sample(sample.first[part], sample.second[part], sample.flow[part], sample.valid[part])


def flip(sample: Sample, *, horizontally: bool, vertically: bool) -> Sample:
    """Return a pair with left and right, or top and bottom, or both, exchanged."""
    how = {"horizontally": horizontally, "vertically": vertically}
    return Sample(
        mirror(sample.first, **how),
        mirror(sample.second, **how),
        mirror_flow(sample.flow, **how),
        mirror(sample.valid, **how),
    )


def recolour(first: Image8, second: Image8, rng: Rng, s: AugmentSettings) -> tuple[Image8, Image8]:
    """Return two images with other brightness, contrast, gamma and colour, mostly the same."""
    shared = _colour_table(rng, s)
    if rng.random() >= s.asymmetric:
        return _mapped(first, shared), _mapped(second, shared)
    return _mapped(first, shared), _mapped(second, _colour_table(rng, s))


def erase(image: Image8, rng: Rng) -> Image8:
    """Return an image with a rectangle, an eighth to a quarter of its sides, in its mean colour."""
    erased = np.array(image)
    size = np.array(image.shape[:2])
    height, width = np.ceil(size * rng.uniform(1 / 8, 1 / 4, 2)).astype(int)
    top, left = rng.integers(0, size - (height, width) + 1)
    erased[top : top + height, left : left + width] = np.rint(image.mean(axis=(0, 1)))
    return erased


def _resized(image: Image8, size: tuple[int, int]) -> Image8:
    resized = cv2.resize(image, size[::-1], interpolation=cv2.INTER_LINEAR)
    return resized.astype(np.uint8, copy=False)


def _interpolate(flow: Flow, valid: Mask, size: tuple[int, int]) -> tuple[Flow, Mask]:
    """Return flow between its pixels, known where all pixels that it is made of are."""
    share = cv2.resize(valid.astype(np.float32), size[::-1], interpolation=cv2.INTER_LINEAR)
    known = share > _WHOLLY_KNOWN
    between = cv2.resize(flow, size[::-1], interpolation=cv2.INTER_LINEAR)
    return np.where(known[..., None], between, np.float32(0)), known


def _scatter(flow: Flow, valid: Mask, size: tuple[int, int]) -> tuple[Flow, Mask]:
    """Return the known flow at the pixels nearest to where its own have come."""
    scattered, known = np.zeros((*size, 2), np.float32), np.zeros(size, np.bool_)
    places = np.nonzero(valid)
    row, column = (
        np.floor((place + 0.5) * (after / before)).astype(int).clip(0, after - 1)
        for place, before, after in zip(places, valid.shape, size, strict=True)
    )
    scattered[row, column] = flow[places]
    known[row, column] = True
    return scattered, known


def _colour_table(rng: Rng, s: AugmentSettings) -> Image8:
    """Return what becomes of the values 0..255 in each channel, (1, 256, 3)."""
    brightness, contrast, gamma = (
        2.0 ** rng.uniform(-most, most) for most in (s.brightness, s.contrast, s.gamma)
    )
    gain = brightness * 2.0 ** rng.uniform(-s.colour, s.colour, 3)
    values = (np.arange(256) / 255) ** gamma
    values = (values - 0.5) * contrast + 0.5
    table: Image8 = np.rint(255 * values[:, None] * gain).clip(0, 255).astype(np.uint8)
    return table[None]


def _mapped(image: Image8, table: Image8) -> Image8:
    return cast(Image8, cv2.LUT(np.ascontiguousarray(image), table))
