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


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name in STYLES:
        write_image(PICTURES / f"{name}.png", small_picture(name))
