"""Style `occlusion`: what the second frame does not show any more."""

import numpy as np

from pwcflow.color import row_blocks
from pwcflow.flow_file import Flow, Mask, known_pixels
from pwcflow.visualization.look import Look
from pwcflow.visualization.sampling import sampled
from pwcflow.visualization.scene import Picture, Scene
from pwcflow.visualization.style import Style

RELATIVE = 0.01
ABSOLUTE_PX2 = 0.5
OPACITY = 0.6
OCCLUDED = (255, 64, 0)


def occluded_pixels(forward: Flow, backward: Flow) -> Mask:
    """Return where the forward-backward check fails, (H, W) bool.

    A point that both frames show comes back to where it was: with w the flow forward at x, and w'
    the flow backward at x + w, interpolated bilinearly, w + w' is 0. It is taken as occluded where

        |w + w'|^2 >= 0.01 (|w|^2 + |w'|^2) + 0.5

    in pixels, or where x + w is outside the second frame. Where w or w' is unknown, it is not.

    Args:
        forward: (H, W, 2), from the first frame to the second, in pixels.
        backward: (H, W, 2), from the second frame to the first.

    Source: Sundaram, Brox, Keutzer, "Dense Point Trajectories by GPU-accelerated Large
    Displacement Optical Flow", ECCV 2010, where it ends the tracks of points.
    """
    occluded = np.empty(forward.shape[:2], bool)
    # What is not known has a third channel of 1: a NaN would spread to samples beside it.
    back = np.zeros((*backward.shape[:2], 3), np.float32)
    for rows in row_blocks(backward):
        part, known = back[rows], known_pixels(backward[rows])
        part[..., :2] = backward[rows]
        part[~known] = 0, 0, 1
    for rows, samples, inside in sampled(back, forward):
        w = np.asarray(forward[rows], np.float32)
        u, v, back_u, back_v = w[..., 0], w[..., 1], samples[..., 0], samples[..., 1]
        with np.errstate(invalid="ignore", over="ignore"):  # by the unknown, which are not inside
            apart = (u + back_u) ** 2 + (v + back_v) ** 2
            lengths = u * u + v * v + back_u * back_u + back_v * back_v
            fails = apart >= RELATIVE * lengths + ABSOLUTE_PX2
        occluded[rows] = inside & fails & (samples[..., 2] == 0)
        if not inside.all():
            occluded[rows] |= ~inside & known_pixels(w)
    return occluded


def draw(scene: Scene, look: Look, _: float) -> Picture:
    """Return the first frame with what is occluded in orange over it, (H, W, 3).

    See `occluded_pixels`.
    """
    assert scene.backward is not None, "a style says what it needs"
    opacity = np.float32(OPACITY if look.opacity is None else look.opacity)
    occluded = occluded_pixels(scene.flow, scene.backward)
    image = scene.first_picture().copy()
    for rows in row_blocks(scene.flow):
        part, here = image[rows], occluded[rows]
        below = part[here].astype(np.float32)
        part[here] = below + opacity * (np.array(OCCLUDED, np.float32) - below) + np.float32(0.5)
    return image


OCCLUSION = Style(
    draw=draw,
    options=frozenset({"opacity"}),
    needs=("frame", "backward"),
    has_scale=False,
)
