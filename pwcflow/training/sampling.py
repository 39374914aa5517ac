"""Draws scenes at random; see `scene` for what they are."""

import numpy as np

from pwcflow.training.attached import attach_objects
from pwcflow.training.camera import Cameras, random_backs, random_cameras
from pwcflow.training.motions import affine, random_waves
from pwcflow.training.objects import move_objects, place_objects, shape_objects
from pwcflow.training.optics import random_optics
from pwcflow.training.randomness import Rng, happens, log_uniform, sign
from pwcflow.training.scene import LAYER, Array, Scenes, SceneSettings
from pwcflow.training.shadows import cast_shadows
from pwcflow.training.surfaces import add_reflections, choose_surfaces
from pwcflow.training.tints import random_tints

_FAINT = 0.3
"""Contrast below which an image is faint."""


def sample_scenes(
    rng: Rng, count: int, photos: int, sprites: int, photo_size: tuple[int, int], s: SceneSettings
) -> Scenes:
    """Return `count` random scenes; the same for the same state of `rng`.

    Args:
        rng: where the randomness comes from.
        count: number of scenes.
        photos: number of photographs to choose from.
        sprites: number of cut-outs to choose from; 0 for none.
        photo_size: height and width of the photographs.
        s: what scenes are like.
    """
    layers = np.zeros((count, 1 + s.layers), LAYER)
    background, objects = layers[:, :1], layers[:, 1:]
    typical = s.typical_motion * log_uniform(rng, *s.motion_spread, count)
    typical *= ~happens(rng, s.frozen, count)
    optics = random_optics(rng, typical, s)
    # Where hardly anything can be seen there is nothing to follow far motion by, or to learn of it.
    typical *= np.where(optics["contrast"].max(-1) < _FAINT, 0.3, 1.0)
    present = np.arange(s.layers) < rng.integers(1, s.layers + 1, (count, 1))
    choose_surfaces(layers, rng, photos, s)
    backs = random_backs(rng, count, s)
    places = place_objects(rng, backs, present, s)
    planes = np.concatenate((backs[:, None], places.plane), 1)
    cameras = random_cameras(rng, typical, planes, places.centre, s)
    _fill_background(background, rng, cameras, backs, photo_size, s)
    shape_objects(objects, rng, places, sprites, photo_size, s)
    move_objects(objects, rng, places, cameras, typical, s)
    layers["waves"][typical == 0] = 0
    attach_objects(objects, rng, typical, s)
    cast_shadows(objects, rng, present, typical, s)
    add_reflections(layers, rng, photos, photo_size, typical, s)
    objects["radius"] *= present
    return Scenes(layers, optics)


def _fill_background(
    layers: Array,
    rng: Rng,
    cameras: Cameras,
    backs: Array,
    photo_size: tuple[int, int],
    s: SceneSettings,
) -> None:
    count = layers.shape
    layers["motion"] = cameras.motions(backs[:, None]).reshape(*count, 9)
    bends = happens(rng, 0.3, count)
    layers["waves"] = random_waves(rng, count, s.width / 4, log_uniform(rng, 0.2, 5, count) * bends)
    layers["pose"][..., 2] = 1.0
    layers["radius"] = 1.0  # unused but for telling that the layer is there
    scale = log_uniform(rng, 0.55, 1.15, count)
    offset = (rng.random((*count, 2)) - 0.5) * (0.4 * photo_size[1], 0.3 * photo_size[0])
    turn = rng.normal(0, 0.15, count)
    layers["texture"] = affine(offset, turn, scale * sign(rng, count), scale)
    layers["tint"] = random_tints(rng, np.exp(0.15 * rng.normal(size=(*count, 3))), 0.4)
