"""What the user chooses about a picture of flow."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from pwcflow.color import ColorCode
from pwcflow.color.palette import PaletteName, Rgb

Background = Literal["white", "black"]
LegendPlace = Literal["none", "inside", "beside"]


@dataclass(frozen=True, kw_only=True)
class Look:
    """A style, and what is asked for beside it: None means what is usual in that style.

    Attributes:
        style: a name in `pwcflow.visualization.STYLES`.
        palette: the colours of the directions.
        background: the colour of no motion, or what lies below arrows and lines without a frame.
        gamma: above 1 shows slow motion stronger; see `pwcflow.color.ColorCode`.
        noise_floor: the motion, in pixels, up to which there is none.
        unknown: the RGB colour of pixels of which nothing is known.
        legend: where the legend is.
        spacing: the distance of arrows or streamlines, in pixels.
        opacity: of what lies over a frame, 0 to 1.
    """

    style: str = "wheel"
    palette: PaletteName | None = None
    background: Background | None = None
    gamma: float | None = None
    noise_floor: float | None = None
    unknown: Rgb | None = None
    legend: LegendPlace | None = None
    spacing: int | None = None
    opacity: float | None = None

    def asked(self) -> dict[str, Any]:
        """Return what is asked for beside the style, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: it for name, it in values.items() if it is not None and name != "style"}

    def settings(self) -> dict[str, Any]:
        """Return style and all that is asked for as JSON holds it, for a record."""
        unknown = {} if self.unknown is None else {"unknown": "#" + bytes(self.unknown).hex()}
        return {"style": self.style, **self.asked(), **unknown}

    def color_code(self, background: Background = "white") -> ColorCode:
        """Return how vectors become colours; `background` is what is usual in the style."""
        return ColorCode(
            palette=self.palette or "middlebury",
            background=self.background or background,
            gamma=self.gamma or 1.0,
            noise_floor_px=self.noise_floor or 0.0,
            unknown=self.unknown,
        )


DEFAULT_LOOK = Look()
"""What is usual: the colours of Middlebury."""
