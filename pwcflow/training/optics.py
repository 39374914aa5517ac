"""Light, lens and sensor: what happens between a scene and its two images."""

import numpy as np

from pwcflow.training.randomness import Rng, happens, log_uniform
from pwcflow.training.scene import OPTICS, Array, SceneSettings

_SPOT_MOTION_PX = 12.0
"""How far highlights and shadows move on average where they do, at least."""


def random_optics(rng: Rng, typical: Array, s: SceneSettings) -> Array:
    """Return light, lens and sensor of N scenes, (N,) of OPTICS.

    Args:
        rng: where the randomness comes from.
        typical: about the mean motion of a scene in pixels, (N,).
        s: what scenes are like.
    """
    count = len(typical)
    optics = np.zeros(count, OPTICS)

    def sometimes(share: float) -> Array:
        return (rng.random(count) < share).astype(float)

    optics["shutter"] = sometimes(0.3) * rng.random(count) * 0.5
    optics["defocus"] = sometimes(0.3) * rng.random(count)
    light = optics["light"]
    wavelength = s.width * log_uniform(rng, 0.4, 3, (count, 3))
    heading = rng.random((count, 3)) * 2 * np.pi
    light[..., 0] = (2 * np.pi / wavelength * np.cos(heading))[:, None]
    light[..., 1] = (2 * np.pi / wavelength * np.sin(heading))[:, None]
    light[..., 2] = (rng.random((count, 3)) * 2 * np.pi)[:, None]
    light[..., 3] = (rng.normal(size=(count, 3)) * 0.17 * sometimes(0.5)[:, None])[:, None]
    # In the second frame shadows have moved on, not with the surfaces, and faded or grown.
    changes = sometimes(0.4)[:, None]
    light[:, 1, :, 2] += rng.normal(size=(count, 3)) * 0.3 * changes
    light[:, 1, :, 3] += rng.normal(size=(count, 3)) * 0.04 * changes
    optics["fog"] = sometimes(0.1) * rng.random(count) * 0.6
    optics["fog_colour"] = rng.random((count, 3))
    differs = sometimes(0.3)[:, None]
    shared = np.exp(rng.normal(size=(count, 1, 3)) * 0.12)
    drift = np.exp(rng.normal(size=(count, 3)) * 0.04 * differs)
    optics["gain"] = shared
    optics["gain"][:, 1] *= drift
    for field, spread, change in (("contrast", 0.25, 0.08), ("gamma", 0.2, 0.08)):
        optics[field] = np.exp(rng.normal(size=(count, 1)) * spread)
        optics[field][:, 1:] *= np.exp(rng.normal(size=(count, 1)) * change * differs)
    # Some scenes are nearly dark, or nearly without contrast.
    optics["gain"] *= np.where(sometimes(0.15), log_uniform(rng, 0.06, 0.6, count), 1)[
        :, None, None
    ]
    optics["contrast"] *= np.where(sometimes(0.08), log_uniform(rng, 0.02, 0.5, count), 1)[:, None]
    optics["brightness"] = rng.normal(size=(count, 1)) * 0.1
    optics["brightness"][:, 1:] += rng.normal(size=(count, 1)) * 0.03 * differs
    optics["gray"] = sometimes(0.08)
    optics["noise"] = sometimes(0.4) * rng.random(count) * 0.03
    optics["seed"] = rng.integers(0, 2**32, count, dtype=np.uint32)
    optics["spots"] = _spots(rng, typical, s)
    optics["quantum"] = sometimes(s.compressed) * log_uniform(rng, 0.004, 0.04, count)
    return optics


def _spots(rng: Rng, typical: Array, s: SceneSettings) -> Array:
    """Return highlights and soft shadows (N, 2, 2, 4) that move, and not with the surfaces.

    They go as far as things do, like the shadow of one of them: what is seen in the shadow tells
    where the surface goes, and its outline does not.
    """
    count = len(typical)
    spots = np.zeros((count, 2, 2, 4))
    pair = (count, 2)
    spots[..., :2] = ((rng.random((*pair, 2)) - 0.5) * (1.1 * s.width, 1.1 * s.height))[:, None]
    spots[..., 2] = 1 / log_uniform(rng, 8, 120, pair)[:, None]
    shine, shade = log_uniform(rng, 0.1, 1.2, pair), -rng.uniform(0.2, 0.9, pair)
    there = happens(rng, 0.35, (count, 1)) & happens(rng, (1.0, 0.5), pair)
    spots[..., 3] = (np.where(happens(rng, 0.6, pair), shine, shade) * there)[:, None]
    moves = happens(rng, 0.7, pair)
    reach = np.maximum(_SPOT_MOTION_PX, typical)[:, None]
    length = rng.exponential(size=pair) * reach * moves
    heading = rng.random(pair) * 2 * np.pi
    spots[:, 1, :, 0] += length * np.cos(heading)
    spots[:, 1, :, 1] += length * np.sin(heading)
    spots[:, 1, :, 3] *= np.clip(1 + rng.normal(size=pair) * 0.15 * moves, 0.5, 1.4)
    return spots
