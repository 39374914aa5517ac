"""The viewer's page in Chromium: what it shows at a place and tells of a pixel."""

import math
import sys

import numpy as np
import pytest

from tests.chromium import find_chromium

needs_chromium = [
    pytest.mark.skipif(sys.platform == "win32", reason="the pipes to Chromium are POSIX's"),
    pytest.mark.skipif(not find_chromium(), reason="needs Chromium; apt-get install chromium"),
]

HEIGHT, WIDTH = 30, 40


def open_page(browser, path):
    browser.open(path)
    browser.wait_for("document.querySelector('#name').textContent")


def text(browser, name):
    return browser.run(f"document.getElementById('{name}').textContent")


def box_of(browser, name):
    """Return left, top, width and height on the page."""
    return browser.run(
        f"(box => [box.x, box.y, box.width, box.height])"
        f"(document.getElementById('{name}').getBoundingClientRect())"
    )


def place_of(browser, x, y, *, width=WIDTH, height=HEIGHT):
    """Return where the middle of a pixel is on the page, when the picture fits the window."""
    left, top, wide, high = box_of(browser, "canvas")
    zoom = min(wide / width, high / height, 64)
    return (
        left + (wide - zoom * width) / 2 + zoom * (x + 0.5),
        top + (high - zoom * height) / 2 + zoom * (y + 0.5),
    )


def hover(browser, x, y):
    """Return what the page tells of a pixel."""
    browser.mouse("moved", *place_of(browser, x, y))
    return [text(browser, name) for name in ("at", "value-u", "value-v")] + [
        text(browser, f"value-{name}") for name in ("magnitude", "angle")
    ]


def colors_at(browser, places):
    """Return what the canvas shows at places of the page, (N, 3)."""
    left, top, _, _ = box_of(browser, "canvas")
    wanted = [[math.floor(x - left), math.floor(y - top)] for x, y in places]
    return np.array(
        browser.run(
            "(() => { const context = document.getElementById('canvas').getContext('2d');"
            f"return {wanted}.map(([x, y]) => [...context.getImageData(x, y, 1, 1).data]); }})()"
        )
    )[:, :3]


def shown_image(browser, width, height):
    places = [
        place_of(browser, x, y, width=width, height=height)
        for y in range(height)
        for x in range(width)
    ]
    return colors_at(browser, places).reshape(height, width, 3)
