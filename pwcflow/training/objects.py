"""Objects: where they are and how deep, their outlines, and how they move."""

from dataclasses import dataclass

import numpy as np

from pwcflow.training.camera import Cameras, depths_inverse
from pwcflow.training.motions import about, affine, random_motions, random_waves
from pwcflow.training.randomness import Rng, happens, log_uniform
from pwcflow.training.scene import HARMONICS, SHAPES, SURFACES, Array, SceneSettings
from pwcflow.training.struts import random_struts
from pwcflow.training.tints import random_tints


@dataclass(frozen=True)
class Places:
    """Where the objects of N scenes are, L to a scene, from far to near."""

    centre: Array
    """(N, L, 2), px about the image's centre, in frame 2."""
    radius: Array
    """(N, L), half an object's extent in px."""
    aspect: Array
    """(N, L), by which an object is shorter in x than `radius`, and longer in y."""
    plane: Array
    """(N, L, 3), its inverse depth over the image; see `camera`."""


def place_objects(rng: Rng, backs: Array, present: Array, s: SceneSettings) -> Places:
    """Return places in front of the planes `backs` (N, 3), nearer than all they may cover.

    Args:
        rng: where the randomness comes from.
        backs: planes behind the objects.
        present: (N, L), which objects there are; they come first.
        s: what scenes are like.
    """
    count = present.shape
    radius = np.sqrt(s.height * s.width) * np.where(
        happens(rng, 0.8, count),
        log_uniform(rng, 0.06, 0.5, count),
        log_uniform(rng, 0.012, 0.07, count),
    )
    aspect = np.where(
        happens(rng, 0.25, count),
        log_uniform(rng, 0.06, 0.3, count),  # thin structures
        log_uniform(rng, 0.45, 2.2, count),
    )
    radius = radius * np.sqrt(np.minimum(aspect, 1.0))  # or thin ones would cross the whole image
    centre = (rng.random((*count, 2)) - 0.5) * (s.width * 1.1, s.height * 1.1)
    # Nearer than the background wherever the object is.
    inverse = depths_inverse(backs[:, None], centre)
    inverse += np.linalg.norm(backs[:, None, :2], axis=-1) * radius
    inverse *= log_uniform(rng, 1.03, 3.5, count)
    half_diagonal = 0.5 * np.hypot(s.width, s.height)
    tilt = happens(rng, 0.5, count) * rng.random(count) * 0.5 / half_diagonal
    heading = rng.random(count) * 2 * np.pi
    slope = (inverse * tilt)[..., None] * np.stack((np.cos(heading), np.sin(heading)), -1)
    plane = np.concatenate((slope, (inverse - (slope * centre).sum(-1))[..., None]), -1)
    order = np.argsort(np.where(present, inverse, np.inf), axis=-1)
    return Places(
        np.take_along_axis(centre, order[..., None], 1),
        np.take_along_axis(radius, order, 1),
        np.take_along_axis(aspect, order, 1),
        np.take_along_axis(plane, order[..., None], 1),
    )


def shape_objects(
    layers: Array,
    rng: Rng,
    places: Places,
    sprites: int,
    photo_size: tuple[int, int],
    s: SceneSettings,
) -> None:
    """Fill outlines and texture maps of the objects `layers` (N, L) of LAYER.

    Args:
        layers: the objects; their surfaces are chosen.
        rng: where the randomness comes from.
        places: where they are.
        sprites: number of cut-outs to choose from; 0 for none.
        photo_size: height and width of the photographs.
        s: what scenes are like.
    """
    count = layers.shape
    layers["shape"] = rng.integers(1, SHAPES.index("skeleton"), count)
    layers["shape"][happens(rng, s.skeletons, count)] = SHAPES.index("skeleton")
    if sprites:
        layers["shape"][happens(rng, s.cut_outs, count)] = SHAPES.index("sprite")
    skeleton = layers["shape"] == SHAPES.index("skeleton")
    upright = skeleton & happens(rng, 0.6, count)  # as furniture and people mostly are
    turn = np.where(upright, 0.2 * rng.normal(size=count), rng.random(count) * 2 * np.pi)
    layers["pose"] = np.stack(
        (places.centre[..., 0], places.centre[..., 1], np.cos(turn), np.sin(turn)), -1
    )
    layers["radius"] = places.radius
    layers["aspect"] = places.aspect
    layers["struts"] = random_struts(rng, places.radius)
    layers["softness"] = np.where(
        happens(rng, 0.85, count),
        log_uniform(rng, 0.6, 1.2, count),
        log_uniform(rng, 1.2, 4, count),
    )
    rough = log_uniform(rng, 0.02, 0.35, (*count, 1)) / np.sqrt(np.arange(2, 2 + HARMONICS))
    layers["amplitudes"] = rng.normal(size=(*count, HARMONICS)) * rough
    layers["phases"] = rng.random((*count, HARMONICS)) * 2 * np.pi
    layers["exponent"] = log_uniform(rng, 0.7, 8, count)
    layers["inner"] = 0.35 + 0.5 * rng.random(count)
    layers["bars"] = 1 + 5 * rng.random(count)
    layers["duty"] = 0.15 + 0.6 * rng.random(count)
    # A small piece of a photograph, magnified, is a smooth surface, as furniture and cars have it.
    smooth = rng.random(count) < np.where(skeleton, 0.5, 0.2)
    scale = np.where(smooth, log_uniform(rng, 0.03, 0.3, count), log_uniform(rng, 0.5, 1.2, count))
    offset = (rng.random((*count, 2)) - 0.5) * (0.8 * photo_size[1], 0.8 * photo_size[0])
    layers["texture"] = affine(offset, rng.random(count) * 2 * np.pi, scale, scale)
    if sprites:
        layers["sprite"] = rng.integers(0, sprites, count)
        own_colours = (layers["shape"] == SHAPES.index("sprite")) & happens(rng, 0.8, count)
        layers["surface"][own_colours] = SURFACES.index("sprite")
    gain = np.clip(1 + 0.35 * rng.normal(size=(*count, 3)), 0.3, 1.9)
    # Some are nearly black: what they cover must not be taken for what moves with them.
    dark = happens(rng, 0.15, count)
    gain *= np.where(dark, log_uniform(rng, 0.04, 0.5, count), 1)[..., None]
    layers["tint"] = random_tints(rng, gain, 0.6)


def move_objects(
    layers: Array, rng: Rng, places: Places, cameras: Cameras, typical: Array, s: SceneSettings
) -> None:
    """Fill how the objects `layers` (N, L) of LAYER move, in scenes of `typical` (N,) motion."""
    count = layers.shape
    own = random_motions(rng, np.broadcast_to(typical[:, None], count), 1.6, s)
    solid = cameras.solid[:, None]
    own[solid & happens(rng, 0.5, count)] = np.eye(3)  # stands still in the world
    own = about(places.centre, own)
    follows = solid | happens(rng, 0.7, count)
    layers["motion"] = np.where(
        follows[..., None, None], cameras.motions(places.plane) @ own, own
    ).reshape(*count, 9)
    bends = happens(rng, 0.35, count)
    layers["waves"] = random_waves(
        rng, count, places.radius, log_uniform(rng, 0.2, 4, count) * bends
    )
