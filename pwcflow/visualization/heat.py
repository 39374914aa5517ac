"""Style `heat`: how fast, whatever the direction."""

from functools import cache

import cv2
import numpy as np

from pwcflow.color import row_blocks
from pwcflow.flow_file import known_pixels
from pwcflow.visualization.key import BarKey, Key, round_ticks
from pwcflow.visualization.look import Look
from pwcflow.visualization.scene import Picture, Scene
from pwcflow.visualization.style import Style
from pwcflow.visualization.text import number


def draw(scene: Scene, look: Look, scale_px: float) -> Picture:
    """Return the magnitude of the flow in the colours of viridis, (H, W, 3).

    From dark blue at rest to yellow at the scale and above; see `ColorCode` for the noise floor
    and gamma. Source of the colours: viridis, by Smith, van der Walt and Firing (2015), released
    under CC0, as OpenCV has it.
    """
    code = look.color_code()
    floor, step = np.float32(code.noise_floor_px), np.float32(scale_px - code.noise_floor_px)
    image = np.empty((*scene.flow.shape[:2], 3), np.uint8)
    for rows in row_blocks(scene.flow):
        flow = np.ascontiguousarray(scene.flow[rows], np.float32)
        known = known_pixels(flow)
        all_known = known.all()
        if not all_known:
            flow = np.where(known[..., None], flow, 0)
        share = np.asarray(cv2.magnitude(*cv2.split(flow)), np.float32).reshape(flow.shape[:2])
        share -= floor
        share /= step
        np.clip(share, 0, 1, out=share)
        if code.gamma != 1:
            cv2.pow(share, 1 / code.gamma, share)
        share *= 255
        share += 0.5
        image[rows] = cv2.applyColorMap(share.astype(np.uint8), _viridis())
        if not all_known:
            image[rows][~known] = code.unknown_color
    return image


def key(scene: Scene, look: Look, scale_px: float) -> Key:
    """Return the colour bar, linear in pixels of motion."""
    ramp = np.zeros((256, 1, 2), np.float32)
    ramp[:, 0, 0] = np.linspace(0, scale_px, 256)
    colors = draw(Scene(flow=ramp), look, scale_px)
    values = round_ticks(scale_px)
    if values[-1] < 0.9 * scale_px:  # there is room for the end of the scale
        values.append(scale_px)
    ticks = [(value / scale_px, number(value)) for value in values]
    return BarKey(colors, ticks, "px", smooth=True)


@cache
def _viridis() -> Picture:
    steps = np.arange(256, dtype=np.uint8)[:, None]
    return np.ascontiguousarray(cv2.applyColorMap(steps, cv2.COLORMAP_VIRIDIS)[..., ::-1])


HEAT = Style(
    draw=draw,
    scale_tells="brightest at",
    options=frozenset({"gamma", "noise_floor", "unknown"}),
    key=key,
    legend="beside",
)
