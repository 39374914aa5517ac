"""What every style is: how it draws, and what it needs and takes for that."""

from collections.abc import Callable
from dataclasses import dataclass

from pwcflow.visualization.key import Key
from pwcflow.visualization.look import LegendPlace, Look
from pwcflow.visualization.scene import FRAMES, Picture, Scene

COLOR_OPTIONS = frozenset({"palette", "noise_floor"})
"""The options of whatever shows directions in colours."""


@dataclass(frozen=True, kw_only=True)
class Style:
    """One way to show a flow.

    Attributes:
        draw: returns the picture, (H', W', 3) uint8 RGB, of a scene that has what is needed; the
            number is the scale in pixels, 1.0 where `has_scale` is false.
        options: the fields of `Look` that can be asked for, beside style and legend.
        needs: the fields of `Scene` that there must be, beside the flow.
        takes: those that there may be.
        has_scale: whether the length of vectors is shown, so that there is a scale for it.
        scale_tells: what is so at the scale, for a sentence that ends with a number of pixels.
        key: returns what explains a scene's picture; None for a style that has no legend.
        legend: where the legend is when nothing is asked for.
        panels: how many pictures of the flow's size there are below, and how many beside each
            other.
    """

    draw: Callable[[Scene, Look, float], Picture]
    options: frozenset[str]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    has_scale: bool = True
    scale_tells: str = "fully saturated at"
    key: Callable[[Scene, Look, float], Key] | None = None
    legend: LegendPlace = "none"
    panels: tuple[int, int] = (1, 1)

    @property
    def parts(self) -> tuple[str, ...]:
        """The fields of `Scene` that are of use."""
        return (*self.needs, *self.takes)

    @property
    def needs_frames(self) -> bool:
        """Whether there must be a frame, or two."""
        return any(name in FRAMES for name in self.needs)
