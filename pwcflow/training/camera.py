"""Cameras that move in space, and the planes they see.

A camera of focal length f pixels sees the point (X, Y, Z) at (f X / Z, f Y / Z), about the image's
centre. Between the frames it turns by R, moves so that points move by t, and zooms: a point of
frame 1 at p = (x, y, 1) in depth Z is in frame 2 at K' (R K^-1 p + t / Z), with K = diag(f, f, 1)
and K' = diag(zoom f, zoom f, 1). The inverse depth of a plane is linear over the image: `plane` =
(a, b, c) says 1 / Z = a x + b y + c. So the motion of a plane is the homography
K' R K^-1 + (K' t) plane^T (Hartley and Zisserman 2004, equation 13.2, in pixels).
"""

from dataclasses import dataclass

import numpy as np

from pwcflow.training.motions import moved, random_motions
from pwcflow.training.randomness import Rng, happens, log_uniform, sign
from pwcflow.training.scene import Array, SceneSettings


@dataclass(frozen=True)
class Cameras:
    """The cameras of N scenes."""

    solid: Array
    """(N,), whether the scene is one of planes at depths; the others are flat."""
    flat: Array
    """(N, 3, 3), in a flat scene the motion of all that follows the camera."""
    turn: Array
    """(N, 3, 3), K' R K^-1, which is the motion of what is infinitely far."""
    travel: Array
    """(N, 3), K' t: how far in pixels a point of depth 1 moves, and how far along the axis."""

    def motions(self, planes: Array) -> Array:
        """Return the motions (N, L, 3, 3) of planes (N, L, 3) that stand still in the world."""
        motions = np.broadcast_to(self.flat[:, None], (*planes.shape[:2], 3, 3)).copy()
        solid = self.solid
        motions[solid] = plane_motions(
            self.turn[solid, None], self.travel[solid, None], planes[solid]
        )
        return motions


def plane_motions(turn: Array, travel: Array, planes: Array) -> Array:
    """Return the homographies (..., 3, 3) of planes (..., 3), with 1 in the last corner."""
    motion: Array = turn + travel[..., :, None] * planes[..., None, :]
    motion /= motion[..., 2:, 2:]
    return motion


def turns(focal: Array, zoom: Array, angles: Array) -> Array:
    """Return K' R K^-1 (N, 3, 3); R turns by the angles (N, 3) about x, then y, then z."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles).T, np.sin(angles).T
    outward, inward = zoom * focal, 1 / focal
    rows = (
        (zoom * cz * cy, zoom * (cz * sy * sx - sz * cx), outward * (cz * sy * cx + sz * sx)),
        (zoom * sz * cy, zoom * (sz * sy * sx + cz * cx), outward * (sz * sy * cx - cz * sx)),
        (-sy * inward, cy * sx * inward, cy * cx),
    )
    return np.moveaxis(np.array(rows), -1, 0)


def random_backs(rng: Rng, count: int, s: SceneSettings) -> Array:
    """Return the planes (N, 3) behind all objects: walls, and grounds that rise to a horizon.

    Their depth at the image's centre is 1, and finite all over the image.
    """
    ground = happens(rng, 0.4, count)
    slope = np.where(ground, rng.uniform(0.45, 0.85, count), 0.7 * rng.random(count) ** 2)
    heading = np.where(
        ground, np.pi / 2 + rng.normal(size=count) * 0.1, rng.random(count) * 2 * np.pi
    )
    toward = np.stack((np.cos(heading), np.sin(heading)), -1)
    # In the corner where the plane is farthest, 1 - slope is left of the inverse depth.
    farthest = np.abs(toward) @ (0.5 * np.array((s.width, s.height)))
    return np.concatenate((toward * (slope / farthest)[:, None], np.ones((count, 1))), -1)


def depths_inverse(planes: Array, points: Array) -> Array:
    """Return 1 / Z of planes (..., 3) at points (..., 2)."""
    inverse: Array = (planes[..., :2] * points).sum(-1) + planes[..., 2]
    return inverse


def random_cameras(
    rng: Rng, typical: Array, planes: Array, centres: Array, s: SceneSettings
) -> Cameras:
    """Return cameras (N) whose motion is bounded for what they see.

    Args:
        rng: where the randomness comes from.
        typical: about the mean motion of a scene in pixels, (N,).
        planes: (N, 1 + L, 3), the background's first.
        centres: (N, L, 2), where the objects are.
        s: bounds.
    """
    count = len(typical)
    flat = random_motions(rng, typical[:, None] * 0.7, 0.8, s)[:, 0]
    solid = happens(rng, s.solid, count)
    focal = s.width * log_uniform(rng, 0.8, 2.2, count)
    # How far each of these moves an average point: turn, travel, way forward, roll, zoom; px.
    on = happens(rng, (0.5, 0.7, 0.6, 0.5, 0.15), (count, 5))
    on &= ~happens(rng, s.still, (count, 1))
    size = rng.exponential(size=(count, 5)) * (0.6, 0.85, 0.65, 0.35, 0.3) * on * typical[:, None]
    arm = s.width / 3  # the average point's distance from the centre
    heading = rng.integers(0, 2, (count, 2)) * np.pi + rng.normal(size=(count, 2)) * np.where(
        happens(rng, 0.5, (count, 2)), 0.2, 2.0
    )  # half of them about level
    pan = np.minimum(size[:, 0] / focal, 0.3)
    roll = np.minimum(size[:, 3] / arm, 0.35) * sign(rng, count)
    angles = np.stack((pan * np.sin(heading[:, 0]), pan * np.cos(heading[:, 0]), roll), -1)
    log_zoom = np.minimum(size[:, 4] / arm, 0.3) * sign(rng, count)
    # What comes nearer keeps at least 0.6 of its depth: no plane passes the camera.
    corners = 0.5 * np.array([(x, y) for x in (-s.width, s.width) for y in (-s.height, s.height)])
    nearest = np.abs(depths_inverse(planes[:, :, None], corners)).max((1, 2))
    forward = np.minimum(size[:, 2] / arm, 0.4 / nearest) * sign(rng, count, 0.75)
    along = size[:, 1:2] * np.stack((np.cos(heading[:, 1]), np.sin(heading[:, 1])), -1)
    travel = np.concatenate((along, -forward[:, None]), -1)

    def scaled(strength: Array) -> Cameras:
        zoom = np.exp(strength * log_zoom)
        lens = np.stack((zoom, zoom, np.ones(count)), -1)
        return Cameras(
            solid,
            flat,
            turns(focal, zoom, strength[:, None] * angles),
            strength[:, None] * travel * lens,
        )

    half = 0.5 * np.array((s.width, s.height))
    seen = np.clip(centres, -half, half)
    around = np.concatenate((corners, np.zeros((1, 2))))
    strength = np.ones(count)
    for _ in range(3):  # turns do not grow in proportion, so once is not enough
        cameras = scaled(strength)
        shift = moved(cameras.motions(planes[:, :1]), around) - around
        farthest = np.linalg.norm(shift, axis=-1).max(-1)
        shift = moved(cameras.motions(planes[:, 1:]), seen) - seen
        # Objects may go farther, as those of flat scenes do by a motion of their own.
        nearer = np.linalg.norm(shift, axis=-1).max(-1, initial=0) / 1.4
        strength = strength * np.minimum(
            1, s.largest_motion / np.maximum(np.maximum(farthest, nearer), 1e-6)
        )
    return scaled(strength)
