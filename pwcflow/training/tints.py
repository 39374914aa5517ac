"""Other colours for layers: there are few photographs and cut-outs, and scenes want many."""

import numpy as np

from pwcflow.training.randomness import Rng, happens, log_uniform
from pwcflow.training.scene import Array

_GRAY = np.full((3, 3), 1 / 3)
_COLOUR = np.eye(3) - _GRAY
_QUARTER = np.array(((0, -1, 1), (1, 0, -1), (-1, 1, 0))) / np.sqrt(3)


def hue_rotations(angle: Array, saturation: Array) -> Array:
    """Return matrices (..., 3, 3) that turn RGB colours about the axis of grays.

    Grays stay as they are, and so does the sum of red, green and blue. A third of a turn makes red
    green, green blue and blue red. Rodrigues' formula about (1, 1, 1) / sqrt(3).

    Args:
        angle: of the turn, radians, (...,).
        saturation: what a colour's distance from gray is multiplied by, (...,).
    """
    angle, saturation = angle[..., None, None], saturation[..., None, None]
    turned: Array = _GRAY + saturation * (np.cos(angle) * _COLOUR + np.sin(angle) * _QUARTER)
    return turned


def random_tints(rng: Rng, gain: Array, share: float) -> Array:
    """Return the tints (..., 3, 3) of layers: a turn of the hue in a share of them, then a gain.

    Args:
        rng: where the randomness comes from.
        gain: of red, green and blue, (..., 3).
        share: of the layers whose hue is turned, by any angle.
    """
    count = gain.shape[:-1]
    turned = happens(rng, share, count)
    angle = rng.random(count) * 2 * np.pi * turned
    saturation = np.where(turned, log_uniform(rng, 0.3, 1.4, count), 1.0)
    return gain[..., :, None] * hue_rotations(angle, saturation)
