"""Objects that belong together: chains of limbs that turn about joints, patches on an object."""

import numpy as np

from pwcflow.training.motions import about, affine
from pwcflow.training.randomness import Rng, happens, log_uniform, sign
from pwcflow.training.scene import SHAPES, SURFACES, Array, SceneSettings

_LOOK = ["surface", "photo", "colours", "wavelength", "seed", "tint"]
_JOINT = 0.7
"""How far out in its parent a limb's joint is, and how far out in the limb: 1 is the outline."""


def attach_objects(layers: Array, rng: Rng, typical: Array, s: SceneSettings) -> None:
    """Let some of the objects (N, L) of LAYER move with an earlier one, in a share of scenes.

    A limb turns about a joint: it has its parent's motion, then a rotation about where the joint
    is in frame 2. A patch lies inside its parent and slips a little. Both bend as the parent does.

    Args:
        layers: the objects, complete.
        rng: where the randomness comes from.
        typical: the scenes' typical motion in px, (N,).
        s: what scenes are like.
    """
    count, objects = layers.shape
    scene = np.arange(count)
    joins = happens(rng, s.attached, (count, 1)) & happens(rng, 0.65, (count, objects))
    joins[:, 0] = False
    chained, is_limb, alike = (happens(rng, share, (count, objects)) for share in (0.75, 0.6, 0.4))
    carrier = np.zeros((count, objects), int)
    generation = np.zeros((count, objects), int)
    carries = np.zeros((count, objects), bool)
    root = np.zeros(count, int)
    for i in range(1, objects):
        chained[:, i] &= joins[:, i - 1] & is_limb[:, i - 1]  # besides the root, only limbs carry
        carrier[:, i] = np.where(chained[:, i], i - 1, root)
        generation[:, i] = joins[:, i] * (1 + generation[scene, carrier[:, i]])
        carries[scene[joins[:, i]], carrier[joins[:, i], i]] = True
        root = np.where(joins[:, i], root, i)
    full = layers[joins | carries]
    _fill_out(full)
    layers[joins | carries] = full
    typical = np.broadcast_to(typical[:, None], joins.shape)
    for now in range(1, generation.max(initial=0) + 1):
        for these, make in (
            ((generation == now) & is_limb, _join),
            ((generation == now) & ~is_limb, _lay_upon),
        ):
            parent, child = layers[these.nonzero()[0], carrier[these]], layers[these]
            _copy_look(child, parent, alike[these])
            make(child, parent, rng, typical[these], chained[these])
            layers[these] = child


def _fill_out(objects: Array) -> None:
    """Make the objects (N,) full: no holes, and no dents below 0.6 of their size."""
    full = objects["shape"] == SHAPES.index("superellipse")
    objects["shape"][~full] = SHAPES.index("blob")
    own_colours = objects["surface"] == SURFACES.index("sprite")
    objects["surface"][own_colours] = SURFACES.index("photo")
    rough = np.abs(objects["amplitudes"]).sum(-1, keepdims=True)
    objects["amplitudes"] *= 0.4 / np.maximum(rough, 0.4)
    objects["exponent"] = np.maximum(objects["exponent"], 1.5)


def _copy_look(child: Array, parent: Array, like: Array) -> None:
    child[_LOOK][like] = parent[_LOOK][like]


def _on_parent(parent: Array, at: Array) -> Array:
    """Return frame-2 coordinates (N, 2) of points `at` where the parents' outlines are 1 out."""
    x, y = at.T * parent["radius"] * np.array((1 / parent["aspect"], parent["aspect"]))
    px, py, cosine, sine = parent["pose"].T
    return np.stack((px + cosine * x - sine * y, py + sine * x + cosine * y), -1)


def _join(limb: Array, parent: Array, rng: Rng, typical: Array, chained: Array) -> None:
    """Make limbs (N,) that begin at a joint in their parents; `chained` ones at its far end."""
    count = len(limb)
    angle = np.where(chained, 0.0, rng.random(count) * 2 * np.pi)
    joint = _on_parent(parent, _JOINT * np.stack((np.cos(angle), np.sin(angle)), -1))
    size = parent["radius"] * np.maximum(parent["aspect"], 1 / parent["aspect"])
    length = np.clip(size * log_uniform(rng, 0.5, 1.1, count), 12, 110)  # half of it
    width = np.maximum(length * log_uniform(rng, 0.12, 0.4, count), 2)
    outward = np.arctan2(*(joint - parent["pose"][:, :2]).T[::-1])
    outward += rng.normal(size=count) * np.where(chained, 0.7, 0.4)
    toward = np.stack((np.cos(outward), np.sin(outward)), -1)
    limb["pose"] = np.concatenate((joint + _JOINT * length[:, None] * toward, toward), -1)
    limb["radius"] = np.sqrt(length * width)
    limb["aspect"] = np.sqrt(width / length)
    limb["amplitudes"] *= 0.5
    # Its end swings about as far as things move in the scene.
    swing = sign(rng, count) * rng.exponential(size=count) * 0.7 * typical / (2 * length)
    turn = np.zeros((count, 3, 3))
    still = np.zeros((count, 2))
    turn[:, :2] = affine(still, np.clip(swing, -0.6, 0.6), np.ones(count), np.ones(count)).reshape(
        count, 2, 3
    )
    turn[:, 2, 2] = 1
    _move_with(limb, parent, about(joint, turn))


def _lay_upon(patch: Array, parent: Array, rng: Rng, typical: Array, _: Array) -> None:
    """Make patches (N,) that are as long and turned as their parents, inside their outlines."""
    count = len(patch)
    angle, out = rng.random(count) * 2 * np.pi, 0.25 * np.sqrt(rng.random(count))
    centre = _on_parent(parent, out[:, None] * np.stack((np.cos(angle), np.sin(angle)), -1))
    patch["pose"] = np.concatenate((centre, parent["pose"][:, 2:]), -1)
    patch["radius"] = parent["radius"] * log_uniform(rng, 0.1, 0.25, count)
    patch["aspect"] = parent["aspect"]
    slip = np.minimum(rng.exponential(size=count) * 0.08 * typical, 0.3 * patch["radius"])
    heading = rng.random(count) * 2 * np.pi
    lively = np.clip(typical / 9, 0, 1.5)
    grown = np.exp(rng.normal(size=count) * 0.02 * lively)
    motion = np.zeros((count, 3, 3))
    motion[:, :2] = affine(
        slip[:, None] * np.stack((np.cos(heading), np.sin(heading)), -1),
        rng.normal(size=count) * 0.04 * lively,
        grown,
        grown,
    ).reshape(count, 2, 3)
    motion[:, 2, 2] = 1
    _move_with(patch, parent, about(centre, motion))


def _move_with(child: Array, parent: Array, then: Array) -> None:
    carried = then @ parent["motion"].astype(float).reshape(-1, 3, 3)
    child["motion"] = (carried / carried[:, 2:, 2:]).reshape(-1, 9)
    child["waves"] = parent["waves"]
