"""Skeletons: a body with thin legs, as chairs, tables, ladders, bicycles and people have them.

Where thin parts move with the body they belong to, and not with what shows between them, is hard to
tell from a few pixels and easy to tell from the body: so scenes have many.
"""

import numpy as np

from pwcflow.training.randomness import Rng, happens, log_uniform, sign
from pwcflow.training.scene import STRUTS, Array

_LEGS = 4
_RUNGS = STRUTS - 2 - _LEGS
_THINNEST_PX = 0.7
"""Half the width of what is still to be seen."""


def random_struts(rng: Rng, radius: Array) -> Array:
    """Return straight parts (..., STRUTS, 5): x and y of both ends, half the width.

    All in radii, in the object's own frame; a part of width 0 is none, and others are wide enough
    to be seen. The first is a seat along x, the second a back that rises from one of its ends; then
    come legs down from the seat, and rungs between two legs each.

    Args:
        rng: where the randomness comes from.
        radius: half an object's extent in px, (...,).
    """
    count = radius.shape
    struts = np.zeros((*count, STRUTS, 5))
    thinnest = _THINNEST_PX / radius
    half_seat = rng.uniform(0.25, 0.6, count)
    struts[..., 0, 0], struts[..., 0, 2] = -half_seat, half_seat
    struts[..., 0, 4] = np.maximum(log_uniform(rng, 0.04, 0.28, count), thinnest)
    side = half_seat * sign(rng, count)
    struts[..., 1, 0] = side
    struts[..., 1, 2] = side + 0.2 * rng.normal(size=count)
    struts[..., 1, 3] = -rng.uniform(0.4, 1.0, count)
    width = np.maximum(log_uniform(rng, 0.02, 0.3, count), thinnest)
    struts[..., 1, 4] = width * happens(rng, 0.7, count)
    legs, rungs = struts[..., 2 : 2 + _LEGS, :], struts[..., 2 + _LEGS :, :]
    many = (*count, _LEGS)
    at = np.clip(np.linspace(-1, 1, _LEGS) + 0.2 * rng.normal(size=many), -1, 1)
    splay = 0.25 * rng.normal(size=(*count, 1)) * at + 0.12 * rng.normal(size=many)
    length = rng.uniform(0.5, 1.1, (*count, 1)) * np.exp(0.1 * rng.normal(size=many))
    legs[..., 0] = half_seat[..., None] * at
    legs[..., 2] = legs[..., 0] + length * np.sin(splay)
    legs[..., 3] = length * np.cos(splay)
    width = np.maximum(log_uniform(rng, 0.015, 0.09, (*count, 1)), thinnest[..., None])
    legs[..., 4] = width * happens(rng, 0.85, many)
    first = rng.integers(0, _LEGS, (*count, _RUNGS, 1))
    second = (first + rng.integers(1, _LEGS, first.shape)) % _LEGS
    height = rng.uniform(0.2, 0.9, (*count, _RUNGS, 1))
    for ends, leg in ((slice(0, 2), first), (slice(2, 4), second)):
        top = np.take_along_axis(legs[..., 0:2], leg, -2)
        foot = np.take_along_axis(legs[..., 2:4], leg, -2)
        rungs[..., ends] = top + height * (foot - top)
    widths = [np.take_along_axis(legs[..., 4:], leg, -2)[..., 0] for leg in (first, second)]
    rungs[..., 4] = np.minimum(*widths) * happens(rng, 0.6, (*count, _RUNGS))
    return struts
