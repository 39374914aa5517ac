"""Random scenes for training: flat layers that move, and the light and lens that see them.

A scene is numbers only, sampled here with numpy; `render` draws two frames and their exact flow
from it. Layer 0 is the background, each further one lies in front of those before it. Coordinates
are pixels with the origin at the image's centre, x to the right and y down.

The trick that makes flow exact: layers are placed in the *second* frame. A point q of frame 2 shows
the layer at q. A point p of frame 1 shows it at motion(p + waves(p)), a homography of a smooth
displacement; so the flow of p is motion(p + waves(p)) - p, in closed form.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Rng = np.random.Generator

WAVES = 4
HARMONICS = 6

# The order and the sizes are those of `struct Layer` in render.cu: four bytes each, no gaps.
LAYER = np.dtype(
    [
        ("motion", "f4", 9),  # homography, frame 1 -> frame 2, row by row
        ("waves", "f4", (WAVES, 5)),  # kx, ky, phase, ax, ay: adds (ax, ay) sin(k.p + phase)
        ("pose", "f4", 4),  # x, y of the object's centre in frame 2; cosine, sine of its turn
        ("shape", "i4"),  # one of SHAPES
        ("radius", "f4"),  # half its extent, px
        ("aspect", "f4"),
        ("softness", "f4"),  # width of its edge, px
        ("amplitudes", "f4", HARMONICS),  # of the outline's harmonics 2, 3, ...
        ("phases", "f4", HARMONICS),
        ("exponent", "f4"),  # of a superellipse
        ("inner", "f4"),  # inner over outer radius of a ring
        ("bars", "f4"),  # bars per radius
        ("duty", "f4"),  # share of a bar that is solid
        ("surface", "i4"),  # one of SURFACES
        ("photo", "i4"),
        ("sprite", "i4"),
        ("texture", "f4", 6),  # affine map, object -> texture px, row by row
        ("colours", "f4", (2, 3)),  # RGB of a procedural surface
        ("wavelength", "f4"),  # of a procedural surface, texture px
        ("seed", "u4"),
        ("gain", "f4", 3),  # of R, G, B
    ]
)
SHAPES = ("everywhere", "blob", "superellipse", "ring", "bars", "sprite")
SURFACES = ("photo", "sprite", "gradient", "stripes", "checks", "noise", "particles")

# `struct Optics` in render.cu: what happens between the scene and the two images.
OPTICS = np.dtype(
    [
        ("shutter", "f4"),  # length of the motion blur over the flow
        ("defocus", "f4"),  # share of the blurred image
        ("light", "f4", (2, 3, 4)),  # by frame: kx, ky, phase, amplitude of the light's logarithm
        ("fog", "f4"),
        ("fog_colour", "f4", 3),
        ("gain", "f4", (2, 3)),  # by frame
        ("contrast", "f4", 2),
        ("brightness", "f4", 2),
        ("gamma", "f4", 2),
        ("gray", "f4"),
        ("noise", "f4"),
        ("seed", "u4"),
    ]
)


@dataclass(frozen=True)
class SceneSettings:
    """What scenes are like; distances in pixels of the rendered image."""

    height: int = 384
    width: int = 512
    layers: int = 8
    """Most objects in front of the background."""
    typical_motion: float = 13.0
    """Translation of a layer in an average scene."""
    motion_spread: tuple[float, float] = (0.08, 5.0)
    """The typical motion varies between scenes by a log-uniform factor from this range."""
    largest_motion: float = 180.0
    still: float = 0.1
    """Share of cameras, and of objects, that do not move at all."""
    frozen: float = 0.03
    """Share of scenes in which nothing moves at all."""
    procedural: float = 0.15
    """Share of surfaces that are computed instead of photographed."""


@dataclass(frozen=True)
class Scenes:
    """A batch of scenes as the renderer takes them."""

    layers: Array
    """(N, 1 + settings.layers) of LAYER; a layer that is not there has radius 0."""
    optics: Array
    """(N,) of OPTICS."""


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
    typical = s.typical_motion * _log_uniform(rng, *s.motion_spread, count)
    typical *= rng.random(count) >= s.frozen
    camera = _motions(rng, typical[:, None] * 0.7, 0.8, s)
    _background(layers[:, :1], rng, camera, photo_size, s)
    _objects(layers[:, 1:], rng, camera, typical[:, None], sprites, photo_size, s)
    layers["photo"] = rng.integers(0, photos, layers.shape)
    layers["seed"] = rng.integers(0, 2**32, layers.shape, dtype=np.uint32)
    layers["waves"][typical == 0] = 0
    present = np.arange(s.layers) < rng.integers(1, s.layers + 1, (count, 1))
    layers["radius"][:, 1:] *= present
    return Scenes(layers, _optics(rng, count, s))


def _background(
    layers: Array, rng: Rng, camera: Array, photo_size: tuple[int, int], s: SceneSettings
) -> None:
    count = layers.shape
    layers["motion"] = camera.reshape(*count, 9)
    bends = rng.random(count) < 0.5
    layers["waves"] = _waves(rng, count, s.width / 4, _log_uniform(rng, 0.2, 5, count) * bends)
    layers["pose"][..., 2] = 1.0
    layers["radius"] = 1.0  # unused but for telling that the layer is there
    scale = _log_uniform(rng, 0.55, 1.15, count)
    flip = np.where(rng.random(count) < 0.5, 1.0, -1.0)
    offset = (rng.random((*count, 2)) - 0.5) * (0.4 * photo_size[1], 0.3 * photo_size[0])
    layers["texture"] = _affine(offset, rng.normal(0, 0.15, count), scale * flip, scale)
    _surfaces(layers, rng, s.procedural)
    layers["gain"] = 1.0


def _objects(
    layers: Array,
    rng: Rng,
    camera: Array,
    typical: Array,
    sprites: int,
    photo_size: tuple[int, int],
    s: SceneSettings,
) -> None:
    count = layers.shape
    radius = np.where(
        rng.random(count) < 0.8,
        _log_uniform(rng, 14, 200, count),
        _log_uniform(rng, 5, 30, count),
    )
    aspect = np.where(
        rng.random(count) < 0.25,
        _log_uniform(rng, 0.06, 0.3, count),  # thin structures
        _log_uniform(rng, 0.45, 2.2, count),
    )
    radius = radius * np.sqrt(np.minimum(aspect, 1.0))  # or thin ones would cross the whole image
    centre = (rng.random((*count, 2)) - 0.5) * (s.width * 1.1, s.height * 1.1)
    own = _motions(rng, np.broadcast_to(typical, count), 1.6, s)
    about_centre = _translation(centre) @ own @ _translation(-centre)
    follows = (rng.random(count) < 0.7)[..., None, None]
    layers["motion"] = np.where(follows, camera @ about_centre, about_centre).reshape(*count, 9)
    bends = rng.random(count) < 0.35
    layers["waves"] = _waves(rng, count, radius, _log_uniform(rng, 0.2, 4, count) * bends)
    turn = rng.random(count) * 2 * np.pi
    layers["pose"] = np.stack((centre[..., 0], centre[..., 1], np.cos(turn), np.sin(turn)), -1)
    layers["shape"] = rng.integers(1, len(SHAPES) if sprites else len(SHAPES) - 1, count)
    layers["radius"] = radius
    layers["aspect"] = aspect
    layers["softness"] = np.where(
        rng.random(count) < 0.85,
        _log_uniform(rng, 0.6, 1.2, count),
        _log_uniform(rng, 1.2, 4, count),
    )
    rough = _log_uniform(rng, 0.02, 0.35, (*count, 1)) / np.sqrt(np.arange(2, 2 + HARMONICS))
    layers["amplitudes"] = rng.normal(size=(*count, HARMONICS)) * rough
    layers["phases"] = rng.random((*count, HARMONICS)) * 2 * np.pi
    layers["exponent"] = _log_uniform(rng, 0.7, 8, count)
    layers["inner"] = 0.35 + 0.5 * rng.random(count)
    layers["bars"] = 1 + 5 * rng.random(count)
    layers["duty"] = 0.15 + 0.6 * rng.random(count)
    scale = _log_uniform(rng, 0.5, 1.2, count)
    offset = (rng.random((*count, 2)) - 0.5) * (0.8 * photo_size[1], 0.8 * photo_size[0])
    layers["texture"] = _affine(offset, rng.random(count) * 2 * np.pi, scale, scale)
    _surfaces(layers, rng, s.procedural)
    if sprites:
        layers["sprite"] = rng.integers(0, sprites, count)
        own_colours = (layers["shape"] == SHAPES.index("sprite")) & (rng.random(count) < 0.6)
        layers["surface"][own_colours] = SURFACES.index("sprite")
    layers["gain"] = np.clip(1 + 0.25 * rng.normal(size=(*count, 3)), 0.4, 1.8)


def _surfaces(layers: Array, rng: Rng, share: float) -> None:
    """Give `share` of the layers a computed surface; the others keep the photograph."""
    count = layers.shape
    computed = rng.integers(SURFACES.index("gradient"), len(SURFACES), count)
    layers["surface"] = np.where(rng.random(count) < share, computed, SURFACES.index("photo"))
    first = rng.random((*count, 1, 3))
    # Some are of little contrast: there is not much to follow, and flow must come from around.
    contrast = _log_uniform(rng, 0.05, 1.0, (*count, 1, 1))
    second = first + (rng.random((*count, 1, 3)) - first) * contrast
    layers["colours"] = np.concatenate((first, second), axis=-2)
    layers["wavelength"] = np.where(
        layers["surface"] == SURFACES.index("gradient"),
        _log_uniform(rng, 100, 800, count),
        _log_uniform(rng, 5, 60, count),
    )


def _motions(rng: Rng, typical: Array, liveliness: float, s: SceneSettings) -> Array:
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
    k = np.where(rng.random(count) < 0.5, 0.25, 1.0) * liveliness * moves
    k = k * np.clip(typical / 9.0, 0.0, 1.5)
    scale = np.exp(rng.normal(size=count) * 0.06 * k)
    stretch = np.exp(rng.normal(size=count) * 0.02 * k)
    angle = rng.normal(size=count) * 0.07 * k
    motion = np.zeros((*count, 3, 3))
    motion[..., :2, :] = _affine(
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


def _waves(rng: Rng, count: tuple[int, ...], length: Array | float, size: Array) -> Array:
    """Return a smooth displacement of about `size` pixels, as a sum of plane waves."""
    wavelength = np.asarray(length)[..., None] * _log_uniform(rng, 0.8, 4, (*count, WAVES))
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


def _optics(rng: Rng, count: int, s: SceneSettings) -> Array:
    optics = np.zeros(count, OPTICS)

    def sometimes(share: float) -> Array:
        return (rng.random(count) < share).astype(float)

    optics["shutter"] = sometimes(0.3) * rng.random(count) * 0.5
    optics["defocus"] = sometimes(0.3) * rng.random(count)
    light = optics["light"]
    wavelength = s.width * _log_uniform(rng, 0.4, 3, (count, 3))
    heading = rng.random((count, 3)) * 2 * np.pi
    light[..., 0] = (2 * np.pi / wavelength * np.cos(heading))[:, None]
    light[..., 1] = (2 * np.pi / wavelength * np.sin(heading))[:, None]
    light[..., 2] = (rng.random((count, 3)) * 2 * np.pi)[:, None]
    light[..., 3] = (rng.normal(size=(count, 3)) * 0.17 * sometimes(0.5)[:, None])[:, None]
    # In the second frame shadows have moved on, not with the surfaces, and faded or grown.
    changes = sometimes(0.4)[:, None]
    light[:, 1, :, 2] += rng.normal(size=(count, 3)) * 0.3 * changes
    light[:, 1, :, 3] += rng.normal(size=(count, 3)) * 0.04 * changes
    optics["fog"] = sometimes(0.15) * rng.random(count) * 0.6
    optics["fog_colour"] = rng.random((count, 3))
    differs = sometimes(0.3)[:, None]
    shared = np.exp(rng.normal(size=(count, 1, 3)) * 0.12)
    drift = np.exp(rng.normal(size=(count, 3)) * 0.04 * differs)
    optics["gain"] = shared
    optics["gain"][:, 1] *= drift
    for field, spread, change in (("contrast", 0.25, 0.08), ("gamma", 0.2, 0.08)):
        optics[field] = np.exp(rng.normal(size=(count, 1)) * spread)
        optics[field][:, 1:] *= np.exp(rng.normal(size=(count, 1)) * change * differs)
    # Some scenes are nearly dark, or nearly without contrast.
    optics["gain"] *= np.where(sometimes(0.05), _log_uniform(rng, 0.02, 0.5, count), 1)[
        :, None, None
    ]
    optics["contrast"] *= np.where(sometimes(0.05), _log_uniform(rng, 0.02, 0.5, count), 1)[:, None]
    optics["brightness"] = rng.normal(size=(count, 1)) * 0.1
    optics["brightness"][:, 1:] += rng.normal(size=(count, 1)) * 0.03 * differs
    optics["gray"] = sometimes(0.08)
    optics["noise"] = sometimes(0.5) * rng.random(count) * 0.03
    optics["seed"] = rng.integers(0, 2**32, count, dtype=np.uint32)
    return optics


def _affine(
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


def _translation(shift: Array) -> Array:
    matrix = np.broadcast_to(np.eye(3), (*shift.shape[:-1], 3, 3)).copy()
    matrix[..., :2, 2] = shift
    return matrix


def _log_uniform(rng: Rng, low: float, high: float, count: int | tuple[int, ...]) -> Array:
    return np.exp(rng.uniform(np.log(low), np.log(high), count))
