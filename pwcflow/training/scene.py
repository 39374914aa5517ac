"""What a scene for training is: flat layers that move, and the light and lens that see them.

A scene is numbers only; `sampling` draws them at random, `render` makes two frames and their
exact flow from them. Layer 0 is the background; each further one is a surface in front of those
before it, or a shadow on them: it darkens them and moves, but the flow stays theirs.
Coordinates are pixels with the origin at the image's centre, x to the right and y down.

The trick that makes flow exact: layers are placed in the *second* frame. A point q of frame 2 shows
the layer at q. A point p of frame 1 shows it at motion(p + waves(p)), a homography of a smooth
displacement; so the flow of p is motion(p + waves(p)) - p, in closed form.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

WAVES = 4
HARMONICS = 6
STRUTS = 8

# The order and the sizes are those of `struct Layer` in scene.cuh: four bytes each, no gaps.
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
        ("struts", "f4", (STRUTS, 5)),  # of a skeleton: x, y of both ends, half the width; radii
        ("surface", "i4"),  # one of SURFACES
        ("photo", "i4"),
        ("sprite", "i4"),
        ("texture", "f4", 6),  # affine map, object -> texture px, row by row
        ("colours", "f4", (2, 3)),  # RGB of a procedural surface
        ("wavelength", "f4"),  # of a procedural surface or of tiles, texture px
        ("seed", "u4"),
        ("tint", "f4", (3, 3)),  # colour seen = tint @ (R, G, B), within 0..1
        ("gloss", "f4"),  # share of that colour that what it reflects takes
        ("reflected", "i4"),  # the photograph that it reflects
        ("reflection", "f4", (2, 6)),  # by frame: affine map, image -> its px, row by row
        ("shade", "f4"),  # of a shadow: share of the light that it takes; 0 for a surface
    ]
)
SHAPES = ("everywhere", "blob", "superellipse", "ring", "bars", "skeleton", "sprite")
SURFACES = (
    *("photo", "sprite", "tiles"),  # tiles repeat a piece of a photograph
    *("gradient", "stripes", "checks", "noise", "particles", "cells", "text"),
)

# `struct Optics` in scene.cuh: what happens between the scene and the two images.
OPTICS = np.dtype(
    [
        ("shutter", "f4"),  # length of the motion blur over the flow
        ("defocus", "f4"),  # share of the blurred image
        ("light", "f4", (2, 3, 4)),  # by frame: kx, ky, phase, amplitude of the light's logarithm
        ("spots", "f4", (2, 2, 4)),  # by frame: x, y, 1 / radius, brightness; below 0 a shadow
        ("fog", "f4"),
        ("fog_colour", "f4", 3),
        ("gain", "f4", (2, 3)),  # by frame
        ("contrast", "f4", 2),
        ("brightness", "f4", 2),
        ("gamma", "f4", 2),
        ("gray", "f4"),
        ("noise", "f4"),
        ("quantum", "f4"),  # step of the codec's coarsest coefficient; 0 for no codec
        ("seed", "u4"),
    ]
)


@dataclass(frozen=True)
class SceneSettings:
    """What scenes are like; distances in pixels of the rendered image."""

    height: int = 384
    width: int = 512
    layers: int = 12
    """Most objects in front of the background."""
    typical_motion: float = 13.0
    """Translation of a layer in an average scene."""
    motion_spread: tuple[float, float] = (0.08, 5.0)
    """The typical motion varies between scenes by a log-uniform factor from this range."""
    largest_motion: float = 180.0
    still: float = 0.1
    """Share of cameras, and of objects, that do not move at all."""
    frozen: float = 0.05
    """Share of scenes in which nothing moves at all."""
    procedural: float = 0.2
    """Share of objects whose surface is computed instead of photographed."""
    procedural_background: float = 0.08
    """Share of backgrounds, likewise: fewer, since a pattern that repeats all over an image fits
    itself at many motions, which is much of the error and little to learn."""
    cut_outs: float = 0.3
    """Share of objects that have the outline of a cut-out, where there are any, before some are
    attached to others and made full."""
    skeletons: float = 0.35
    """Share of skeletons, bodies with thin legs, of the objects that are no cut-outs; likewise."""
    solid: float = 0.5
    """Share of scenes whose layers are planes at depths, seen by a camera that moves in space."""
    attached: float = 0.35
    """Share of scenes in which objects belong together: limbs on joints, patches on objects."""
    glossy: float = 0.12
    """Share of objects that reflect what moves otherwise; of backgrounds a third of it."""
    shadowed: float = 0.3
    """Share of scenes in which objects cast shadows."""
    compressed: float = 0.2
    """Share of scenes whose images have been through a codec of 8 x 8 blocks."""

    @classmethod
    def of_size(
        cls,
        height: int,
        width: int,
        typical_motion: float | None = None,
        *,
        photographs: bool = True,
    ) -> "SceneSettings":
        """Return settings for scenes of a size.

        Without photographs all surfaces are computed. In scenes smaller than the usual ones things
        move less in proportion, or most of what is seen in one frame would have left the other,
        unless the typical motion is given. In larger ones they typically move as far as usual, and
        the largest motion grows with the root of their area.
        """
        share = min(1.0, height / cls.height, width / cls.width)
        reach = share if share < 1 else math.sqrt(height * width / (cls.height * cls.width))
        return cls(
            height=height,
            width=width,
            typical_motion=share * cls.typical_motion if typical_motion is None else typical_motion,
            largest_motion=reach * cls.largest_motion,
            procedural=cls.procedural if photographs else 1.0,
            procedural_background=cls.procedural_background if photographs else 1.0,
        )


@dataclass(frozen=True)
class Scenes:
    """A batch of scenes as the renderer takes them."""

    layers: Array
    """(N, 1 + settings.layers) of LAYER; a layer that is not there has radius 0."""
    optics: Array
    """(N,) of OPTICS."""
