"""Random numbers as scenes are made of."""

import numpy as np

from pwcflow.training.scene import Array

Rng = np.random.Generator


def log_uniform(rng: Rng, low: float, high: float, count: int | tuple[int, ...]) -> Array:
    """Return numbers between `low` and `high` that are as often halved as doubled."""
    return np.exp(rng.uniform(np.log(low), np.log(high), count))


def happens(rng: Rng, share: float | tuple[float, ...], count: int | tuple[int, ...]) -> Array:
    """Return booleans of which `share` are true; a tuple says it for each of the last axis."""
    return rng.random(count) < np.asarray(share)


def sign(rng: Rng, count: int | tuple[int, ...], positive: float = 0.5) -> Array:
    """Return numbers 1, by a share of `positive`, and -1."""
    return np.where(rng.random(count) < positive, 1.0, -1.0)
