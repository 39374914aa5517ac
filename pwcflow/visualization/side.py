"""Style `side`: the frame and its flow, side by side."""

import numpy as np

from pwcflow.visualization import wheel
from pwcflow.visualization.look import Look
from pwcflow.visualization.scene import Picture, Scene
from pwcflow.visualization.style import Style


def draw(scene: Scene, look: Look, scale_px: float) -> Picture:
    """Return the first frame at the left and the flow in colours at the right, (H, 2 W, 3)."""
    return np.concatenate([scene.first_picture(), wheel.draw(scene, look, scale_px)], axis=1)


SIDE = Style(
    draw=draw,
    options=wheel.WHEEL.options,
    needs=("frame",),
    key=wheel.wheel_key,
    panels=(1, 2),
)
