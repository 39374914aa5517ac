"""How vectors become colours: what may be chosen about it."""

from dataclasses import dataclass
from typing import Literal

from pwcflow.color.palette import PaletteName, Rgb, palette

SMALLEST_SCALE_PX = 1.0
"""Shorter flows are not stretched to full colour, so the noise of a static scene is white."""


@dataclass(frozen=True, kw_only=True)
class ColorCode:
    """How vectors become colours.

    Of a vector of length m px, with a scale of s px and a noise floor of n px, the colour lies
    between that of no motion and that of its direction, at ((m - n) / (s - n)) ** (1 / gamma),
    where m <= n is no motion. Longer than s is at the rim, and marked: on white its colour is
    darkened by a quarter, as Middlebury does, on black it is lightened by a quarter; the palette
    `colorblind` has no colour to spare for that.

    Attributes:
        palette: the colours of the directions; see `pwcflow.color.palette.palette`.
        background: the colour of no motion; that of `colorblind` is gray, whatever this says.
        gamma: above 1 shows slow motion stronger.
        noise_floor_px: motion up to this length counts as none.
        unknown: the RGB colour of unknown pixels; None for black, or on black for gray.
    """

    palette: PaletteName = "middlebury"
    background: Literal["white", "black"] = "white"
    gamma: float = 1.0
    noise_floor_px: float = 0.0
    unknown: Rgb | None = None

    @property
    def smallest_scale_px(self) -> float:
        """The least scale that is chosen for a flow: what is slower is mostly noise."""
        return max(SMALLEST_SCALE_PX, 2 * self.noise_floor_px)

    @property
    def still(self) -> Rgb:
        """The colour of no motion."""
        center = palette(self.palette).center
        return center or ((255,) * 3 if self.background == "white" else (0,) * 3)

    @property
    def marks_beyond(self) -> bool:
        """Whether a vector longer than the scale is darkened, or on black lightened."""
        return palette(self.palette).center is None

    @property
    def unknown_color(self) -> Rgb:
        """The colour of unknown pixels."""
        return self.unknown or ((128,) * 3 if self.still == (0, 0, 0) else (0,) * 3)


MIDDLEBURY = ColorCode()
"""As in the published program, with white for no motion."""
