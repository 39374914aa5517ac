"""The example pair of the README: its true flow has to carry frame one onto frame two."""

import re
import runpy
from pathlib import Path

import cv2
import numpy as np
import pytest

from pwcflow import FlowEstimator, flow_to_color, read_image
from pwcflow.color import largest_magnitude
from pwcflow.visualization import STYLES

IMAGES = Path(__file__).parents[1] / "images"


def read_frame(name):
    return cv2.imread(str(IMAGES / name), cv2.IMREAD_COLOR)


@pytest.fixture(scope="module")
def flow():
    """The true flow, read without the package: this test is about the files."""
    data = (IMAGES / "flow.flo").read_bytes()
    assert data[:4] == b"PIEH"
    width, height = np.frombuffer(data, "<i4", 2, offset=4)
    return np.frombuffer(data, "<f4", offset=12).reshape(height, width, 2)


def span(low, high, size):
    """How much the components differ within size x size pixels, given their least and greatest."""
    box = np.ones((size, size), np.uint8)
    return (cv2.dilate(high, box) - cv2.erode(low, box)).max(axis=2)


def seen_in_both(flow):
    """Pixels of frame one that frame two shows as well, away from the edges of objects.

    Left out: pixels whose target is outside frame two, those within 4 px of a jump of the flow
    (an outline in frame one), and those whose target, within 4 px, is also the target of pixels
    that move otherwise (an outline in frame two, or something covered by it).
    """
    height, width = flow.shape[:2]
    y, x = np.mgrid[0:height, 0:width]
    target_x, target_y = x + flow[..., 0], y + flow[..., 1]
    target = np.stack([target_x, target_y], axis=-1)
    inside = ((target >= 0) & (target <= [width - 1, height - 1])).all(axis=2)
    at = target_y[inside].round().astype(int), target_x[inside].round().astype(int)
    low, high = np.full(flow.shape, 1e9, np.float32), np.full(flow.shape, -1e9, np.float32)
    np.minimum.at(low, at, flow[inside])
    np.maximum.at(high, at, flow[inside])
    # A rotation by 9 degrees changes the flow by 0.16 px a pixel: 1.4 px over 9 pixels.
    seen = inside & (span(flow, flow, 9) < 2)
    seen[inside] &= (span(low, high, 9) < 2)[at]
    return seen


def warp_error(flow):
    """Mean absolute difference of frame one and frame two sampled at p + flow, in grey levels."""
    one, two = read_frame("one.png"), read_frame("two.png")
    y, x = np.mgrid[0 : flow.shape[0], 0 : flow.shape[1]].astype(np.float32)
    warped = cv2.remap(two, x + flow[..., 0], y + flow[..., 1], cv2.INTER_LINEAR)
    difference = np.abs(warped.astype(np.float32) - one).mean(axis=2)
    return difference, seen_in_both(flow)


def test_sizes_agree_and_the_flow_is_finite(flow):
    assert read_frame("one.png").shape == read_frame("two.png").shape == (*flow.shape[:2], 3)
    assert np.isfinite(flow).all()
    assert 20 < np.hypot(*flow.reshape(-1, 2).T).max() < 30


def test_the_true_flow_carries_one_onto_two(flow):
    difference, seen = warp_error(flow)
    assert seen.mean() > 0.75
    assert difference[seen].mean() < 2  # 1.5; bilinear sampling alone costs about that


@pytest.mark.parametrize("shift", [(0.25, 0), (-0.25, 0), (0, 0.25), (0, -0.25)], ids=str)
def test_a_quarter_pixel_off_is_worse(flow, shift):
    exact, seen = warp_error(flow)
    shifted, _ = warp_error(flow + np.float32(shift))
    assert exact[seen].mean() < 0.8 * shifted[seen].mean()


def test_the_gallery_shows_what_the_styles_draw():
    gallery = runpy.run_path(str(IMAGES / "gallery.py"))
    drawn = gallery["pictures"](gallery["example_scene"]())
    files = {path.stem: path for path in (IMAGES / "gallery").iterdir()}
    assert files.keys() == drawn.keys()
    assert {look.style for look in gallery["LOOKS"].values()} == STYLES.keys()
    assert sum(path.stat().st_size for path in files.values()) < 1.5e6
    readme = (IMAGES.parent / "README.md").read_text(encoding="utf-8")
    for name, picture in drawn.items():
        shown = read_image(files[name])
        assert shown.shape == picture.shape
        # JPEG, letters of another OpenCV, and last digits of the flow
        assert np.abs(picture.astype(int) - shown).mean() < 4
        assert f"images/gallery/{name}.jpg" in readme


def test_the_picture_and_the_readme_show_what_the_shipped_weights_give():
    flow = FlowEstimator(device="cpu")(
        read_image(IMAGES / "one.png"), read_image(IMAGES / "two.png")
    )
    # The last digits of a flow differ between processors, and with them a level here and there.
    difference = np.abs(flow_to_color(flow).astype(int) - read_image(IMAGES / "flow.png"))
    assert difference.mean() < 0.1
    readme = (IMAGES.parent / "README.md").read_text(encoding="utf-8")
    told = re.search(r"largest motion ([0-9.]+) px", readme)
    assert told
    assert float(told[1]) == pytest.approx(largest_magnitude(flow), abs=0.01)
