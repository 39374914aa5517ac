"""Shadows, whose outlines move as what casts them does; the flow is that of what they fall on."""

import numpy as np

from pwcflow.training.motions import translation
from pwcflow.training.randomness import Rng, happens, log_uniform
from pwcflow.training.scene import Array, SceneSettings

_OUTLINE = [
    *("shape", "sprite", "aspect", "amplitudes", "phases"),
    *("exponent", "inner", "bars", "duty", "struts"),
]
"""What a shadow has of its caster."""


def cast_shadows(
    objects: Array, rng: Rng, present: Array, typical: Array, s: SceneSettings
) -> None:
    """Make some of the objects (N, L) of LAYER shadows of nearer ones, in a share of scenes.

    A shadow has the outline of what casts it, beside it on the side away from the scene's light,
    and darkens what lies behind it. Half of the shadows move exactly as their casters do; the
    others slip besides, in any direction, by 0.3 of the typical motion on average. Edges are soft,
    but for shadows of cut-outs.

    Args:
        objects: complete, from far to near.
        rng: where the randomness comes from.
        present: (N, L), which of them there are; they come first.
        typical: the scenes' typical motion in px, (N,).
        s: what scenes are like.
    """
    count = objects.shape
    number = np.arange(count[1])
    nearer = present.sum(-1, keepdims=True) - 1 - number  # so many there are of each
    chosen = number + 1 + (rng.random(count) * nearer).astype(int)
    falls = happens(rng, s.shadowed, (count[0], 1)) & happens(rng, 0.3, count) & (nearer > 0)
    scene = np.arange(count[0])
    for i in reversed(number[:-1]):  # shadows cast none
        falls[:, i] &= ~falls[scene, np.minimum(chosen[:, i], count[1] - 1)]
    from_light = np.broadcast_to(rng.random((count[0], 1)) * 2 * np.pi, count)[falls]
    caster = objects[falls.nonzero()[0], chosen[falls]]
    shadow, many = objects[falls], len(caster)
    shadow[_OUTLINE] = caster[_OUTLINE]
    away = caster["radius"] * log_uniform(rng, 0.2, 1.5, many)
    offset = away[:, None] * np.stack((np.cos(from_light), np.sin(from_light)), -1)
    shadow["pose"] = caster["pose"]
    shadow["pose"][:, :2] += offset
    shadow["radius"] = caster["radius"] * log_uniform(rng, 0.7, 1.4, many)
    # An edge as wide as a small shadow would reach to where the renderer does not look any more.
    shadow["softness"] = np.minimum(log_uniform(rng, 0.6, 16, many), 0.5 * shadow["radius"])
    shadow["shade"] = rng.uniform(0.2, 0.9, many)
    length = rng.exponential(size=many) * 0.3 * typical[falls.nonzero()[0]]
    length *= happens(rng, 0.5, many)
    slips_to = rng.random(many) * 2 * np.pi
    slip = length[:, None] * np.stack((np.cos(slips_to), np.sin(slips_to)), -1)
    motion = caster["motion"].astype(float).reshape(many, 3, 3)
    motion = translation(offset + slip) @ motion @ translation(-offset)
    shadow["motion"] = (motion / motion[:, 2:, 2:]).reshape(many, 9)
    waves = caster["waves"].astype(float)
    waves[..., 2] -= (waves[..., :2] * offset[:, None]).sum(-1)  # the same, moved along
    shadow["waves"] = waves
    objects[falls] = shadow
