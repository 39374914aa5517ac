"""What all styles share: pictures that were looked at, sizes, refusals, memory."""

import re
import tracemalloc

import numpy as np
import pytest

from pwcflow.errors import ImageError, OutputError
from pwcflow.image_file import read_image
from pwcflow.visualization import STYLES, Look, Scene, check_parts, draw, picture_size, style_of
from pwcflow.visualization.scene import PARTS
from tests.visualization_scene import (
    PICTURES,
    WITH_LEGEND,
    constant,
    only_color,
    scene_of,
    show,
    small_picture,
    small_scene,
)


@pytest.mark.parametrize("style", STYLES)
def test_the_picture_is_the_one_that_was_looked_at(style):
    expected = read_image(PICTURES / f"{style}.png").astype(int)
    actual = small_picture(style).astype(int)
    assert actual.shape == expected.shape
    difference = np.abs(actual - expected).max(axis=2)
    # Soft edges of lines may be drawn a little differently by another OpenCV, and one before 5
    # samples images at 32nds of a pixel.
    others = {"arrows": 0.05, "streamlines": 0.05, "warp": 0.02}
    assert (difference > 2).mean() < others.get(style, 0.002)


@pytest.mark.parametrize("style", [name for name, it in STYLES.items() if it.has_scale])
def test_a_scale_beyond_float32_shows_all_as_faster_or_all_as_still(style):
    flow, still = constant(3, 4), constant(0, 0)
    assert np.array_equal(show(style, flow, scale=5e-324), show(style, flow, scale=1e-3))
    assert np.array_equal(show(style, flow, scale=1e300), show(style, still))
    place = "beside" if style in WITH_LEGEND else None
    for scale in (5e-324, 1e300):  # NumPy warns of nothing
        draw(scene_of(flow), Look(style=style, legend=place), scale)


# what every style does


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("height", "width"), [(1, 1), (1, 40), (33, 1), (7, 5), (60, 180), (64, 48)], ids=str
)
@pytest.mark.parametrize("kind", ["zero", "one pixel", "nan", "noise"])
def test_every_style_shows_every_flow(style, height, width, kind):
    flow = np.zeros((height, width, 2), np.float32)
    if kind == "one pixel":
        flow[height // 2, width // 2] = 7, -3
    elif kind == "nan":
        flow[:] = np.nan
    elif kind == "noise":
        rng = np.random.default_rng(0)
        flow = rng.normal(0, 50, flow.shape).astype(np.float32)
        flow[rng.random((height, width)) < 0.2] = np.inf, 1e10
    image = show(style, flow)
    across, down = {"side": (2, 1), "warp": (2, 2)}.get(style, (1, 1))
    assert image.shape == (down * height, across * width, 3)
    assert image.dtype == np.uint8


@pytest.mark.parametrize("style", ["wheel", "heat", "error"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e10])
def test_unknown_pixels_are_of_one_colour(style, value):
    flow = constant(1, 1)
    flow[2, 3, 1] = value
    assert show(style, flow)[2, 3].tolist() == [0, 0, 0]
    assert show(style, flow, unknown=(1, 2, 3))[2, 3].tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_frames_of_any_depth_are_shown_in_eight_bits(dtype):
    most = {np.uint8: 255, np.uint16: 65535, np.float32: 1.0}[dtype]
    frame = (np.full((2, 3, 3), 0.4) * most).astype(dtype)
    scene = Scene(flow=constant(0, 0, 2, 3), frame=frame)
    assert only_color(draw(scene, Look(style="side"), 1.0)[:, :3]) == [102, 102, 102]


# what does not go together


@pytest.mark.parametrize(
    ("look", "message"),
    [
        (Look(style="rainbow"), "there is no style rainbow; use wheel, arrows"),
        (Look(style="heat", palette="colorblind"), "--palette is not for the style heat, but for"),
        (Look(style="wheel", spacing=9), "--spacing is not for the style wheel, but for arrows, s"),
        (Look(style="wheel", opacity=1.0), "--opacity is not .* wheel, but for overlay, occlusion"),
        (Look(style="overlay", background="black"), "--background is not for the style overlay"),
        (Look(style="warp", legend="inside"), "the style warp has no legend"),
        (Look(style="error", noise_floor=1.0), "--noise-floor is not for the style error"),
        (Look(palette="colorblind", background="black"), "no motion is gray in colorblind"),
    ],
    ids=str,
)
def test_an_option_that_shows_nothing_is_refused(look, message):
    with pytest.raises(ValueError, match=message):
        style_of(look)


def test_parts_that_lack_or_are_of_no_use_are_named():
    with pytest.raises(ValueError, match="the style warp needs --frame and --second"):
        check_parts(Look(style="warp"), ())
    with pytest.raises(ValueError, match="--truth is not for the style wheel, but for error"):
        check_parts(Look(), ("truth",), ("truth",))
    with pytest.raises(ValueError, match="--background is not for arrows over a frame"):
        check_parts(Look(style="arrows", background="black"), ("frame",))
    check_parts(Look(style="arrows"), ("frame", "second"))


def test_parts_of_another_size_are_refused():
    for name, value in (("frame", np.zeros((8, 9, 3), np.uint8)), ("truth", constant(0, 0, 9, 10))):
        scene = Scene(flow=constant(0, 0), **{name: value})
        style = "side" if name == "frame" else "error"
        with pytest.raises(ImageError, match=r"the (first frame|true flow) is \d+ x \d+ pixels, b"):
            draw(scene, Look(style=style, legend="none"), 1.0)


def test_the_scene_is_left_as_it_was():
    scene = small_scene()
    names = ["flow", *PARTS]
    before = {name: getattr(scene, name).tobytes() for name in names}
    for style in STYLES:
        draw(scene, Look(style=style), 10.0)
    assert {name: getattr(scene, name).tobytes() for name in names} == before


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("legend", [None, "none", "beside", "inside"])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (35, 61), (301, 403), (700, 130)])
def test_the_size_of_a_picture_is_known_before_it_is_drawn(style, legend, height, width):
    if STYLES[style].key is None and legend in ("beside", "inside"):
        pytest.skip("has no legend")
    look = Look(style=style, legend=legend)
    scene = scene_of(constant(3, -2, height, width))
    try:
        drawn = draw(scene, look, 5.0).shape[:2]
    except OutputError as error:
        with pytest.raises(OutputError, match=re.escape(str(error))):
            picture_size(look, height, width)
    else:
        assert picture_size(look, height, width) == drawn


# large pictures


@pytest.mark.parametrize("style", STYLES)
def test_a_strip_of_an_8k_picture_takes_little_more_memory_than_it_has(style):
    """An eighth of 7680 x 4320, so that it takes no time; what is held grows with the pixels."""
    flow = constant(3, -2, 540, 7680)
    flow[:100, :100] = np.nan
    scene = scene_of(flow)
    tracemalloc.start()
    try:
        image = draw(scene, Look(style=style), 5.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The picture, once more for the strip with the legend, and as much again as the flow.
    assert peak < 2 * image.nbytes + flow.nbytes + (16 << 20)


@pytest.mark.parametrize("style", ["wheel", "arrows"])
def test_a_whole_8k_flow_has_a_picture(style):
    flow = np.zeros((4320, 7680, 2), np.float32)
    flow[..., 0] = np.linspace(-9, 9, 7680)
    image = draw(Scene(flow=flow), Look(style=style, legend="inside"), 9.0)
    assert image.shape == (4320, 7680, 3)
    if style == "wheel":
        assert image[0, [0, -1]].tolist() == [[0, 209, 255], [255, 0, 0]]
    else:  # 24 of a distance of 320 px in a row, 13 rows; each has its middle in its cell
        assert (image[400 - 320 // 2 + 16 :: 320, 160::320] != 255).any(axis=2).mean() > 0.5
