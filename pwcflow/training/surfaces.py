"""What layers look like: which photograph, cut-out or computed pattern, and its colours."""

import numpy as np

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
