"""A small scene for pictures of every style; `python -m tests.visualization_scene` draws them.

The pictures in tests/pictures were looked at, one by one, before they were taken as right.
"""

from pathlib import Path

import numpy as np

from pwcflow.image_file import write_image
from pwcflow.visualization import STYLES, Look, Scene, draw

PICTURES = Path(__file__).with_name("pictures")
HEIGHT, WIDTH = 54, 72
SCALE_PX = 10.0
WITH_LEGEND = [name for name, style in STYLES.items() if style.key]


def rotation(degrees):
    """The flow (HEIGHT, WIDTH, 2) of a turn about the middle, clockwise on the screen."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float64)
    x, y = x - (WIDTH - 1) / 2, y - (HEIGHT - 1) / 2
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.stack([c * x - s * y - x, s * x + c * y - y], -1).astype(np.float32)


def pattern(u, v):
    """A picture, (HEIGHT, WIDTH, 3) uint8, of colours that are known everywhere, seen at x + u."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    x, y = x + u, y + v
    spots = 128 + 60 * np.sin(x / 5) * np.cos(y / 5)
    return np.clip(np.stack([x * 3, y * 4, spots], -1), 0, 255).astype(np.uint8)


def small_scene():
    """A turn by 12 degrees with an unknown corner, its frames, a truth and a way back."""
    flow = rotation(12)
    flow[:10, :14] = np.nan
    back = np.moveaxis(rotation(-12), -1, 0)
    backward = rotation(-12)
    backward[30:45, 45:60] += 3
    truth = rotation(12) + np.linspace(0, 8, WIDTH, dtype=np.float32)[:, None]
    return Scene(
        flow=flow, frame=pattern(0, 0), second=pattern(*back), truth=truth, backward=backward
    )


def small_picture(style):
    """The picture of a style, without a legend: letters differ between versions of OpenCV."""
    legend = None if STYLES[style].key is None else "none"
    return draw(small_scene(), Look(style=style, legend=legend), SCALE_PX)


def scene_of(flow, level=100):
    """A scene with all parts, of a flow (H, W, 2): gray frames, no error, no occlusion."""
    flow = np.asarray(flow, np.float32)
    frame = np.full((*flow.shape[:2], 3), level, np.uint8)
    return Scene(flow=flow, frame=frame, second=frame, truth=flow, backward=-flow)


def constant(u, v, height=8, width=10):
    return np.broadcast_to(np.float32([u, v]), (height, width, 2)).copy()


def show(style, flow, scale=10.0, level=100, **options):
    if style in WITH_LEGEND:
        options.setdefault("legend", "none")
    return draw(scene_of(flow, level), Look(style=style, **options), scale)


def only_color(image):
    colors = np.unique(image.reshape(-1, 3), axis=0)
    assert len(colors) == 1
    return colors[0].tolist()


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name in STYLES:
        write_image(PICTURES / f"{name}.png", small_picture(name))
