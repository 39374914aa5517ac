"""All styles by their names, and what is to be asked before one is drawn."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from pwcflow.color import drawable_scale
from pwcflow.color.scale import MaxFlow, one_scale
from pwcflow.flow_file import Flow
from pwcflow.visualization import legend
from pwcflow.visualization.arrows import ARROWS
from pwcflow.visualization.error import ERROR
from pwcflow.visualization.heat import HEAT
from pwcflow.visualization.look import Look
from pwcflow.visualization.occlusion import OCCLUSION
from pwcflow.visualization.overlay import OVERLAY
from pwcflow.visualization.scene import PARTS, Picture, Scene
from pwcflow.visualization.side import SIDE
from pwcflow.visualization.streamlines import STREAMLINES
from pwcflow.visualization.style import Style
from pwcflow.visualization.warp import WARP
from pwcflow.visualization.wheel import WHEEL

STYLES: Mapping[str, Style] = {
    "wheel": WHEEL,
    "arrows": ARROWS,
    "streamlines": STREAMLINES,
    "heat": HEAT,
    "overlay": OVERLAY,
    "side": SIDE,
    "warp": WARP,
    "error": ERROR,
    "occlusion": OCCLUSION,
}
"""The styles, by the names that users give them."""


def style_of(look: Look) -> Style:
    """Return the style that a look asks for.

    Raises:
        ValueError: there is no such style, or something is asked for that it does not show.
    """
    style = STYLES.get(look.style)
    if style is None:
        raise ValueError(f"there is no style {look.style}; use {', '.join(STYLES)}")
    for name in look.asked():
        if name == "legend":
            if style.key is None and look.legend != "none":
                raise ValueError(f"the style {look.style} has no legend")
        elif name not in style.options:
            users = ", ".join(other for other, it in STYLES.items() if name in it.options)
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is not for the style {look.style}, but for {users}")
    if look.background and look.palette == "colorblind":
        raise ValueError(
            "--background is for the palette middlebury: no motion is gray in colorblind"
        )
    return style


def check_parts(look: Look, parts: Collection[str], asked: Collection[str] = ()) -> None:
    """Raise `ValueError` unless a style can be drawn of what a scene will hold.

    Args:
        look: style and options.
        parts: the fields of `Scene` that there will be, beside the flow.
        asked: those of them that somebody has given for this style, so that they must be of use.
    """
    style = style_of(look)
    for name in asked:
        if name not in style.parts:
            users = [key for key, it in STYLES.items() if name in it.parts]
            raise ValueError(
                f"--{name} is not for the style {look.style}, but for {', '.join(users)}"
            )
    missing = [name for name in style.needs if name not in parts]
    if missing:
        options = " and ".join(f"--{name}" for name in missing)
        raise ValueError(f"the style {look.style} needs {options}")
    if look.background and "frame" in style.takes and "frame" in parts:
        raise ValueError(f"--background is not for {look.style} over a frame")


def scale_for(flow: Flow, rule: MaxFlow | None, look: Look) -> float | None:
    """Return the scale of one flow in pixels; None for a style that has none.

    Args:
        flow: (H, W, 2), in pixels.
        rule: the scale, or how it is found; when None the largest magnitude.
        look: style and options.
    """
    if not style_of(look).has_scale:
        return None
    return one_scale(flow, rule or "sequence", look.color_code().smallest_scale_px)


def scale_settings(look: Look, rule: str) -> dict[str, Any]:
    """Return the settings of a look and the name of its scale's rule, as JSON holds them."""
    return {**look.settings(), "scale": rule if style_of(look).has_scale else None}


def picture_size(look: Look, height: int, width: int) -> tuple[int, int]:
    """Return height and width of the picture that `draw` makes of a flow of this size.

    Raises:
        ValueError: options do not go together.
        OutputError: there is no room for a legend inside the picture.
    """
    style = style_of(look)
    down, across = style.panels
    size = down * height, across * width
    place = look.legend or style.legend
    if place == "none" or style.key is None:
        return size
    nothing = np.broadcast_to(np.float32(0), (height, width, 2))
    key = style.key(Scene(flow=nothing), look, look.color_code().smallest_scale_px)
    return (legend.size_inside if place == "inside" else legend.size_beside)(*size, key)


def draw(scene: Scene, look: Look, scale_px: float | None) -> Picture:
    """Return a scene in the style that is asked for, with its legend, (H', W', 3) uint8 RGB.

    Args:
        scene: has what the style needs; what it neither needs nor takes is not looked at.
        look: style and options.
        scale_px: the magnitude in pixels shown fully saturated, at the end of the colour bar, or
            as the longest arrow; None for a style that shows none.

    Raises:
        ValueError: options do not go together, or the scene lacks what the style needs.
        ImageError: what the scene holds differs in size.
        OutputError: there is no room for a legend inside the picture.
    """
    style = style_of(look)
    parts = [name for name in PARTS if getattr(scene, name) is not None]
    check_parts(look, parts)
    if style.has_scale and scale_px is None:
        raise ValueError(f"the style {look.style} needs a scale")
    scene.check()
    scale = drawable_scale(scale_px or 1.0)
    picture = style.draw(scene, look, scale)
    place = look.legend or style.legend
    if place == "none" or style.key is None:
        return picture
    key = style.key(scene, look, scale)
    background = look.color_code().still
    put = legend.inside if place == "inside" else legend.beside
    return put(picture, key, background)
