"""Style `overlay`: the colours of the flow over its frame."""

import cv2
import numpy as np

from pwcflow.color import flow_over_image
from pwcflow.visualization.look import Look
from pwcflow.visualization.scene import Picture, Scene
from pwcflow.visualization.style import COLOR_OPTIONS, Style
from pwcflow.visualization.wheel import wheel_key

OPACITY = 0.75


def draw(scene: Scene, look: Look, scale_px: float) -> Picture:
    """Return the flow over its first frame in gray, (H, W, 3): what rests shows the frame alone.

    See `pwcflow.color.flow_over_image`. The frame is gray so that every hue is the flow's.
    """
    opacity = OPACITY if look.opacity is None else look.opacity
    frame = gray(scene.first_picture())
    return flow_over_image(scene.flow, frame, opacity, scale_px, look.color_code())


def gray(picture: Picture) -> Picture:
    """Return a picture in gray, by Rec. 601, with three equal channels."""
    levels = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.cvtColor(levels, cv2.COLOR_GRAY2RGB), np.uint8)


OVERLAY = Style(
    draw=draw,
    options=COLOR_OPTIONS | {"gamma", "unknown", "opacity"},
    needs=("frame",),
    key=wheel_key,
)
