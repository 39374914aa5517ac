"""The pictures that the page shows in a real browser: colours of flow, and frames in place."""

import cv2
import numpy as np

from pwcflow.color import flow_to_color
from pwcflow.flow_file import known_pixels, write_flow
from pwcflow.image_file import write_image
from pwcflow.viewer import view
from tests.viewer_page import colors_at, needs_chromium, open_page, place_of, shown_image, text

pytestmark = needs_chromium


def varied_flow():
    """Vectors of all directions and lengths to 10 px, and unknown ones."""
    random = np.random.default_rng(5)
    angle, length = random.uniform(-np.pi, np.pi, (40, 60)), random.uniform(0, 10, (40, 60))
    flow = np.stack([length * np.cos(angle), length * np.sin(angle)], -1).astype(np.float32)
    flow[::7, ::5] = np.nan
    flow[1, 1] = 0, 2e9
    return flow


def test_colours_are_those_of_the_command_line(browser, tmp_path):
    flow = varied_flow()
    write_flow(tmp_path / "a.flo", flow)
    view([tmp_path / "a.flo"], tmp_path / "a.html", max_flow=6)
    open_page(browser, tmp_path / "a.html")
    shown = shown_image(browser, 60, 40).astype(int)
    expected = flow_to_color(flow, 6).astype(int)
    # Where the wheel's ends meet, and where darker colours begin, half a step of 1/128 px decides.
    u, v = np.moveaxis(np.nan_to_num(flow.astype(float)), -1, 0)
    at_edge = ((np.abs(v) < 1 / 256) & (u > 0)) | (np.abs(np.hypot(u, v) - 6) < 1 / 64)
    known = known_pixels(flow)
    assert at_edge[known].mean() < 0.01
    assert np.abs(shown - expected)[~at_edge | ~known].max() <= 2
    assert (shown[~known] == 0).all()
    assert (np.hypot(u, v)[known] > 6.02).sum() > 500


def test_the_longest_vector_is_not_darkened_by_rounding(browser, tmp_path):
    flow = np.zeros((4, 6, 2), np.float32)
    flow[1, 2] = 5.008, 0  # 641.02 steps of 1/128 px
    flow[2, 2] = 3.5412, 3.5412  # 453.27 steps each, and 5.00801 px in all
    flow[3, 2] = 3.5391, -3.5434  # 453.0 and 453.6 steps, of which 454: longer than it was
    write_flow(tmp_path / "a.flo", flow)
    view([tmp_path / "a.flo"], tmp_path / "a.html")
    open_page(browser, tmp_path / "a.html")
    shown = shown_image(browser, 6, 4).astype(int)
    assert np.abs(shown - flow_to_color(flow).astype(int)).max() <= 2


def test_the_scale_is_changed_in_the_page(browser, tmp_path):
    flow = varied_flow()
    write_flow(tmp_path / "a.flo", flow)
    view([tmp_path / "a.flo"], tmp_path / "a.html", max_flow=6)
    open_page(browser, tmp_path / "a.html")
    assert text(browser, "radius") == "radius 6.00 px"
    browser.run(
        "scale = document.getElementById('scale'); scale.value = 20;"
        "scale.dispatchEvent(new Event('change'))"
    )
    assert text(browser, "radius") == "radius 20.0 px"
    shown = shown_image(browser, 60, 40).astype(int)
    u, v = np.moveaxis(np.nan_to_num(flow), -1, 0)
    at_edge = (np.abs(v) < 1 / 256) & (u > 0)
    assert np.abs(shown - flow_to_color(flow, 20).astype(int))[~at_edge].max() <= 2
    browser.run("document.getElementById('scale-reset').click()")
    assert text(browser, "radius") == "radius 6.00 px"


def test_frames_are_shown_at_the_right_place(browser, tmp_path):
    image = np.zeros((48, 64, 3), np.uint8)
    cv2.rectangle(image, (40, 8), (55, 23), (255, 255, 255), -1)
    for name in ("1.png", "2.png"):
        write_image(tmp_path / name, image)
    write_flow(tmp_path / "a.flo", np.zeros((48, 64, 2), np.float32))
    frames = [tmp_path / "1.png", tmp_path / "2.png"]
    view([tmp_path / "a.flo"], tmp_path / "a.html", frames=frames)
    open_page(browser, tmp_path / "a.html")
    browser.key("1")
    shown = shown_image(browser, 64, 48).astype(int)
    inner = np.ones((48, 64), bool)  # but the rims, which WebP blurs
    inner[5:27, 37:59] = False
    inner[11:21, 43:53] = True
    assert np.abs(shown - image)[inner].max() <= 24


def test_the_second_frame_is_moved_back_by_the_flow(browser, tmp_path):
    y, x = np.mgrid[:48, :64]
    ramp = np.stack([2 * x, 4 * y, 0 * x], -1).astype(np.uint8)
    flow = np.zeros((48, 64, 2), np.float32)
    flow[...] = 10, -5
    flow[24:] = 0.5, 0
    flow[40, 40] = np.nan
    for name in ("1.png", "2.png"):
        write_image(tmp_path / name, ramp)
    write_flow(tmp_path / "a.flo", flow)
    frames = [tmp_path / "1.png", tmp_path / "2.png"]
    view([tmp_path / "a.flo"], tmp_path / "a.html", frames=frames)
    open_page(browser, tmp_path / "a.html")
    browser.key("2")
    browser.run("document.getElementById('divider').focus()")
    browser.key("Home")
    assert text(browser, "side-right") == "second frame, moved back"
    shown = shown_image(browser, 64, 48).astype(int)
    # 20 more red and 20 less green where it moves; beyond the frame there is nothing
    inside = np.s_[6:23, 1:53]
    np.testing.assert_allclose(shown[inside], ramp[inside] + np.array([20, -20, 0]), atol=8)
    assert (shown[:5, :] == 0).all()
    assert (shown[:24, 54:] == 0).all()
    below = np.s_[25:39, 1:62]
    np.testing.assert_allclose(shown[below], ramp[below] + np.array([1, 0, 0]), atol=8)
    assert (shown[40, 40] == 0).all()
    assert (shown[40, 41] > 0)[:2].all()


def test_pictures_are_decoded_anew_wherever_one_jumps(browser, tmp_path):
    (tmp_path / "frames").mkdir()
    (tmp_path / "flows").mkdir()
    for number in range(21):
        color = (12 * number, 0, 240 - 12 * number)
        write_image(tmp_path / "frames" / f"{number}.png", np.full((8, 8, 3), color, np.uint8))
    for number in range(20):
        write_flow(tmp_path / "flows" / f"{number}.flo", np.full((8, 8, 2), 1, np.float32))
    view([tmp_path / "flows"], tmp_path / "a.html", frames=[tmp_path / "frames"], fps=240)
    open_page(browser, tmp_path / "a.html")
    browser.key("1")
    for key in ["End", "Home", "PageDown", "End", "ArrowRight", "ArrowLeft", "Home", "PageDown"]:
        browser.key(key)
    for number, key in ((10, "Home"), (0, "End"), (19, "PageUp"), (9, " ")):
        browser.wait_for(
            f"document.getElementById('position').textContent === '{number + 1} of 20'"
        )
        place = [place_of(browser, x, 4, width=8, height=8) for x in (0, 7)]
        expected = [(12 * at, 0, 240 - 12 * at) for at in (number, number + 1)]
        np.testing.assert_allclose(colors_at(browser, place), expected, atol=10)
        browser.key(key)
    browser.wait_for("document.getElementById('position').textContent !== '10 of 20'")
    # reading the canvas, as this test does, is told to be slow
    complaints = [it for it in browser.complaints() if "willReadFrequently" not in str(it)]
    assert complaints == []
