"""Motions of layers as matrices: affine maps, homographies about a point, smooth displacements."""

import numpy as np

from pwcflow.training.randomness import Rng, happens, log_uniform
from pwcflow.training.scene import WAVES, Array, SceneSettings


def affine(
    shift: Array, angle: Array, scale_x: Array, scale_y: Array, shear: Array | float = 0.0
) -> Array:
    """Return turn * (scale, shear) + shift as (..., 6): rows (a b x) and (c d y)."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.stack(
        (
            cosine * scale_x,
            cosine * shear - sine * scale_y,
            shift[..., 0],
            sine * scale_x,
            sine * shear + cosine * scale_y,
            shift[..., 1],
        ),
        axis=-1,
    )


def translation(shift: Array) -> Array:
    """Return the matrices (..., 3, 3) that move by `shift` (..., 2)."""
    matrix = np.broadcast_to(np.eye(3), (*shift.shape[:-1], 3, 3)).copy()
    matrix[..., :2, 2] = shift
    return matrix


def about(point: Array, motion: Array) -> Array:
    """Return motions (..., 3, 3) about the origin as the same ones about `point` (..., 2)."""
    return translation(point) @ motion @ translation(-point)


def moved(motion: Array, points: Array) -> Array:
    """Return where homographies (..., 3, 3) take points (..., 2)."""
    x, y, w = (
        motion[..., i, 0] * points[..., 0] + motion[..., i, 1] * points[..., 1] + motion[..., i, 2]
        for i in range(3)
    )
    return np.stack((x / w, y / w), -1)


def random_motions(rng: Rng, typical: Array, liveliness: float, s: SceneSettings) -> Array:
    """Return homographies (..., 3, 3) about the origin, of heavy-tailed translation.

    Args:
        rng: where the randomness comes from.
        typical: mean translation in pixels, (N, L).
        liveliness: how much rotation, scale, shear and perspective go with it.
        s: bounds.
    """
    count = typical.shape
    moves = rng.random(count) >= s.still
    length = np.minimum(rng.exponential(size=count) * typical, s.largest_motion) * moves
    heading = rng.random(count) * 2 * np.pi
    k = np.where(happens(rng, 0.5, count), 0.25, 1.0) * liveliness * moves
    k = k * np.clip(typical / 9.0, 0.0, 1.5)
    scale = np.exp(rng.normal(size=count) * 0.06 * k)
    stretch = np.exp(rng.normal(size=count) * 0.02 * k)
    angle = rng.normal(size=count) * 0.07 * k
    motion = np.zeros((*count, 3, 3))
    motion[..., :2, :] = affine(
        np.stack((length * np.cos(heading), length * np.sin(heading)), -1),
        angle,
        scale * stretch,
        scale / stretch,
        rng.normal(size=count) * 0.02 * k,
    ).reshape(*count, 2, 3)
    motion[..., 2, 2] = 1.0
    perspective = np.broadcast_to(np.eye(3), motion.shape).copy()
    perspective[..., 2, :2] = rng.normal(size=(*count, 2)) * 5e-5 * k[..., None]
    return motion @ perspective


def random_waves(rng: Rng, count: tuple[int, ...], length: Array | float, size: Array) -> Array:
    """Return a smooth displacement of about `size` pixels, as a sum of plane waves."""
    wavelength = np.asarray(length)[..., None] * log_uniform(rng, 0.8, 4, (*count, WAVES))
    k = 2 * np.pi / np.maximum(wavelength, 24.0)
    heading = rng.random((*count, WAVES)) * 2 * np.pi
    # Steeper waves would fold the image over itself.
    amplitude = np.minimum(np.abs(rng.normal(size=(*count, WAVES))) * size[..., None], 0.2 / k)
    toward = rng.random((*count, WAVES)) * 2 * np.pi
    return np.stack(
        (
            k * np.cos(heading),
            k * np.sin(heading),
            rng.random((*count, WAVES)) * 2 * np.pi,
            amplitude * np.cos(toward),
            amplitude * np.sin(toward),
        ),
        axis=-1,
    )
