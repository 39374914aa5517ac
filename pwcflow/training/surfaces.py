"""What layers look like: which photograph, cut-out or computed pattern, and its colours."""

import numpy as np

from pwcflow.training.motions import affine
from pwcflow.training.randomness import Rng, happens, log_uniform
from pwcflow.training.scene import SURFACES, Array, SceneSettings

_WAVELENGTHS = {
    "tiles": (12, 60),
    "gradient": (100, 800),
    "cells": (8, 80),
    "text": (10, 60),  # a line of text
}
"""Least and largest, texture px; others from 5 to 60."""


def choose_surfaces(layers: Array, rng: Rng, photos: int, s: SceneSettings) -> None:
    """Give some of the layers (N, 1 + L) computed surfaces, the others one of `photos` photographs.

    The first layer is the background; it and the others have shares of their own in `s`.
    """
    count = layers.shape
    computed = rng.integers(SURFACES.index("tiles"), len(SURFACES), count)
    share = (s.procedural_background, *(s.procedural,) * (count[1] - 1))
    layers["surface"] = np.where(happens(rng, share, count), computed, SURFACES.index("photo"))
    first = rng.random((*count, 1, 3))
    # Some are of little contrast: there is not much to follow, and flow must come from around.
    contrast = log_uniform(rng, 0.01, 1.0, (*count, 1, 1))
    second = first + (rng.random((*count, 1, 3)) - first) * contrast
    layers["colours"] = np.concatenate((first, second), axis=-2)
    spread = np.array([_WAVELENGTHS.get(name, (5, 60)) for name in SURFACES])[layers["surface"]]
    low, high = np.log(spread[..., 0]), np.log(spread[..., 1])
    layers["wavelength"] = np.exp(low + (high - low) * rng.random(count))
    layers["photo"] = rng.integers(0, photos, count)
    layers["seed"] = rng.integers(0, 2**32, count, dtype=np.uint32)


def add_reflections(
    layers: Array,
    rng: Rng,
    photos: int,
    photo_size: tuple[int, int],
    typical: Array,
    s: SceneSettings,
) -> None:
    """Let some of the layers (N, 1 + L) reflect a photograph that moves, and not with them.

    As water, windows and the bodies of cars do: the flow is that of the surface all the same.

    Args:
        layers: all of the scenes; the first one of each is the background.
        rng: where the randomness comes from.
        photos: number of photographs to choose from.
        photo_size: height and width of the photographs.
        typical: about the mean motion of a scene in pixels, (N,).
        s: what scenes are like.
    """
    count = layers.shape
    share = (s.glossy / 3, *(s.glossy,) * (count[1] - 1))
    layers["gloss"] = happens(rng, share, count) * rng.uniform(0.1, 0.7, count)
    layers["reflected"] = rng.integers(0, photos, count)
    offset = (rng.random((*count, 2)) - 0.5) * (0.8 * photo_size[1], 0.8 * photo_size[0])
    scale_x, scale_y = log_uniform(rng, 0.4, 1.2, (2, *count))
    first = affine(offset, rng.random(count) * 2 * np.pi, scale_x, scale_y)
    length = rng.exponential(size=count) * 0.5 * typical[:, None]
    heading = rng.random(count) * 2 * np.pi
    dx, dy = length * np.cos(heading), length * np.sin(heading)
    second = first.copy()
    second[..., 2] -= first[..., 0] * dx + first[..., 1] * dy
    second[..., 5] -= first[..., 3] * dx + first[..., 4] * dy
    layers["reflection"] = np.stack((first, second), axis=-2)
