"""Style `wheel`: the colours of the flow."""

from pwcflow.visualization.key import Key, WheelKey, bar_length
from pwcflow.visualization.look import Look
from pwcflow.visualization.scene import Picture, Scene
from pwcflow.visualization.style import COLOR_OPTIONS, Style


def draw(scene: Scene, look: Look, scale_px: float) -> Picture:
    """Return the flow in colours, (H, W, 3); see `pwcflow.color.flow_to_color`."""
    return scene.paint(scene.flow, scale_px, look.color_code())


def wheel_key(scene: Scene, look: Look, scale_px: float) -> Key:
    """Return what explains the colours of directions."""
    return WheelKey(look.color_code(), scale_px, bar_length(*scene.flow.shape[:2]))


WHEEL = Style(
    draw=draw,
    options=COLOR_OPTIONS | {"background", "gamma", "unknown"},
    key=wheel_key,
)
