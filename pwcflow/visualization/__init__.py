"""Pictures of flow: one small module a style, and what they have in common.

`draw(scene, look, scale_px)` is all there is to call. A `Scene` is a flow with what belongs to it,
a `Look` what the user chooses, a `Style` in `STYLES` how one is drawn and what it needs for that.
"""

from pwcflow.visualization.catalogue import (
    STYLES,
    check_parts,
    draw,
    picture_size,
    scale_for,
    scale_settings,
    style_of,
)
from pwcflow.visualization.error import score_of
from pwcflow.visualization.look import DEFAULT_LOOK, Look
from pwcflow.visualization.scene import Picture, Scene
from pwcflow.visualization.style import Style

__all__ = [
    "DEFAULT_LOOK",
    "STYLES",
    "Look",
    "Picture",
    "Scene",
    "Style",
    "check_parts",
    "draw",
    "picture_size",
    "scale_for",
    "scale_settings",
    "score_of",
    "style_of",
]
