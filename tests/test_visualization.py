"""Values of every style worked out by hand, and pictures that were looked at."""

import re
import tracemalloc

import numpy as np
import pytest

from pwcflow.color import flow_to_color
from pwcflow.errors import ImageError, OutputError
from pwcflow.image_file import read_image
from pwcflow.visualization import STYLES, Look, Scene, check_parts, draw, picture_size, style_of
from pwcflow.visualization.key import MOST_TICKS, bar_length, round_ticks
from pwcflow.visualization.occlusion import occluded_pixels
from pwcflow.visualization.text import draw_text, number
from tests.visualization_scene import PICTURES, small_picture, small_scene

WITH_LEGEND = [name for name, style in STYLES.items() if style.key]


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


# each style


def test_heat_is_viridis_from_rest_to_the_scale():
    # The first, middle and last colour of viridis as its authors list it: 0, 128 and 255 of 256.
    assert only_color(show("heat", constant(0, 0))) == [68, 1, 84]
    assert only_color(show("heat", constant(3, 4))) == pytest.approx([33, 145, 140], abs=1)
    for long in (10, 1000):
        assert only_color(show("heat", constant(0, -long))) == pytest.approx([253, 231, 37], abs=1)


def test_gamma_and_noise_floor_shape_the_heat():
    # (2.5 / 10) ** (1 / 2) = 0.5, and (6 - 2) / (10 - 2) = 0.5
    for options in ({"gamma": 2.0}, {"noise_floor": 2.0}):
        length = 2.5 if "gamma" in options else 6
        color = only_color(show("heat", constant(length, 0), **options))
        assert color == pytest.approx([33, 145, 140], abs=1)
    assert only_color(show("heat", constant(2, 0), noise_floor=2.0)) == [68, 1, 84]


def test_an_overlay_shows_the_frame_where_nothing_moves_and_red_where_it_moves_right():
    assert only_color(show("overlay", constant(0, 0))) == [100, 100, 100]
    # At the scale a share of 0.75: 100 + 0.75 * (255 - 100) = 216.25, and 0.25 * 100 = 25.
    assert only_color(show("overlay", constant(10, 0))) == [216, 25, 25]
    # At half the scale and opacity 0.4 a share of 0.2: 100 + 0.2 * 155 = 131, 0.8 * 100 = 80.
    assert only_color(show("overlay", constant(5, 0), opacity=0.4)) == [131, 80, 80]
    # Beyond, red is darkened to 191.25: 100 + 0.75 * 91.25 = 168.4.
    assert only_color(show("overlay", constant(20, 0))) == [168, 25, 25]


def test_an_unknown_pixel_of_an_overlay_has_its_colour_at_the_opacity():
    flow = constant(np.nan, 0)
    assert only_color(show("overlay", flow, opacity=0.5)) == [50, 50, 50]
    assert only_color(show("overlay", flow, opacity=1.0, unknown=(9, 8, 7))) == [9, 8, 7]


def test_side_by_side_has_the_frame_at_the_left_and_the_colours_at_the_right():
    image = show("side", constant(10, 0, 4, 6))
    assert image.shape == (4, 12, 3)
    assert only_color(image[:, :6]) == [100, 100, 100]
    assert only_color(image[:, 6:]) == [255, 0, 0]


def test_a_shift_by_whole_pixels_is_warped_back_exactly():
    second = np.random.default_rng(0).integers(0, 80, (6, 9, 3), np.uint8)
    first = np.roll(second, (-1, -2), axis=(0, 1))  # what is at x in the first is at x + 2
    image = draw(
        Scene(flow=constant(2, 1, 6, 9), frame=first, second=second), Look(style="warp"), None
    )
    assert image.shape == (12, 18, 3)
    np.testing.assert_array_equal(image[:6, :9], second)
    np.testing.assert_array_equal(image[:5, 9:16], first[:5, :7])
    assert not image[6:11, 9:16].any()  # no difference is left
    largest = np.abs(first.astype(int) - second).max(axis=2)
    np.testing.assert_array_equal(image[6:, :9], np.minimum(largest * 3, 255)[..., None] + [0] * 3)
    for beyond in (image[5, 9:], image[:6, 16:], image[11, 9:], image[6:, 16:]):
        assert only_color(beyond) == [128, 128, 128]


def test_the_warp_is_bilinear():
    second = np.zeros((1, 3, 3), np.uint8)
    second[0, 1] = 80, 40, 0
    image = draw(
        Scene(flow=constant(0.25, 0, 1, 3), frame=second, second=second), Look(style="warp"), None
    )
    # x = 0.25: a quarter of what is at 1; x = 1.25: three quarters; 2.25 is outside
    assert image[0, 3:].tolist() == [[20, 10, 0], [60, 30, 0], [128, 128, 128]]
    assert image[1, 3:].tolist() == [[60] * 3, [60] * 3, [128] * 3]  # 3 * 20, both times


# The bounds in units of 3 px, or of 5 % of the length, and the colours of KITTI's development kit.
KITTI = [
    (0, (49, 54, 149)), (0.0625, (69, 117, 180)), (0.125, (116, 173, 209)), (0.25, (171, 217, 233)),
    (0.5, (224, 243, 248)), (1, (254, 224, 144)), (2, (253, 174, 97)), (4, (244, 109, 67)),
    (8, (215, 48, 39)), (16, (165, 0, 38)),
]  # fmt: skip


@pytest.mark.parametrize(("bound", "color"), KITTI, ids=str)
def test_errors_have_the_colours_of_kitti(bound, color):
    for error in (3 * bound * 1.01, 3 * max(bound, 0.03) * 1.9):
        scene = Scene(flow=constant(error, 0), truth=constant(0, 0))
        image = draw(scene, Look(style="error", legend="none"), None)
        assert only_color(image) == list(color)
    # Of a vector of 200 px an error of 10 px is allowed.
    scene = Scene(flow=constant(200, 10 * bound * 1.01), truth=constant(200, 0))
    assert only_color(draw(scene, Look(style="error", legend="none"), None)) == list(color)


def test_where_the_truth_or_the_flow_is_unknown_there_is_no_error():
    flow, truth = constant(0, 0, 1, 3), constant(0, 0, 1, 3)
    flow[0, 1], truth[0, 2] = np.nan, 1e10
    image = draw(Scene(flow=flow, truth=truth), Look(style="error", legend="none"), None)
    assert image[0].tolist() == [[49, 54, 149], [0, 0, 0], [0, 0, 0]]


def test_the_forward_backward_check_by_hand():
    # Forward (10, 0), 6 px wide: only pixel 0 of 12 comes to 10. Back by (-10, e): it fails when
    # e^2 >= 0.01 (100 + 100 + e^2) + 0.5, that is 0.99 e^2 >= 2.5, e >= 1.5891.
    for off, occluded in ((0, False), (1.58, False), (1.6, True), (-1.6, True)):
        forward, backward = constant(10, 0, 3, 12), constant(-10, off, 3, 12)
        found = occluded_pixels(forward, backward)
        assert (found[:, :2] == occluded).all()
        assert found[:, 2:].all()  # outside


def test_the_backward_flow_is_read_where_the_flow_leads():
    forward, backward = constant(3, 2, 8, 9), constant(0, 0, 8, 9)
    backward[5, 6] = -3, -2
    backward[6, 6] = np.nan, 0
    found = occluded_pixels(forward, backward)
    assert not found[3, 3]  # (3, 3) comes to x = 6, y = 5, and back
    assert not found[4, 3]  # nobody knows
    assert found.sum() == 8 * 9 - 2


def test_what_is_occluded_is_orange_over_the_frame():
    scene = scene_of(constant(0, 0, 2, 3))
    scene.backward[0, 0] = 5, 0
    image = draw(scene, Look(style="occlusion", opacity=0.5), None)
    # (100 + 255) / 2, (100 + 64) / 2, (100 + 0) / 2
    assert image[0, 0].tolist() == pytest.approx([178, 82, 50], abs=1)
    image[0, 0] = 100
    assert only_color(image) == [100, 100, 100]


@pytest.mark.parametrize(
    ("u", "v", "color"), [(1, 0, (255, 0, 0)), (-1, 0, (0, 209, 255)), (0, -1, (88, 0, 255))]
)
def test_an_arrow_lies_along_its_vector_around_the_middle_of_its_cell(u, v, color):
    image = draw(
        Scene(flow=constant(10 * u, 10 * v, 61, 61)),
        Look(style="arrows", spacing=41, legend="none"),
        10.0,
    )
    painted = (image < 128).any(axis=2)
    y, x = painted.nonzero()
    # 0.95 * 41 = 39 px long, a head of 2 * 0.17 * 41 = 14 px wide, and a rim of 1 px around it
    long, wide = np.ptp(x if u else y) + 1, np.ptp(y if u else x) + 1
    assert long == pytest.approx(41, abs=2)
    assert wide == pytest.approx(16, abs=2)
    assert image[30, 30].tolist() == pytest.approx(color, abs=1)
    # The head is at the end that the vector points to: that half has more paint.
    ahead = painted[:, 31:] if u > 0 else painted[:, :30] if u < 0 else painted[:30]
    assert ahead.sum() > 0.55 * painted.sum()


def test_half_the_scale_is_half_an_arrow_and_beyond_the_scale_none_grows():
    def length(u):
        scene = Scene(flow=constant(u, 0, 101, 101))
        image = draw(scene, Look(style="arrows", spacing=61), 10.0)
        x = (image < 128).any(axis=2).nonzero()[1]
        return np.ptp(x) + 1

    assert length(10) - length(5) == pytest.approx(0.475 * 61, abs=2)
    assert length(1000) == length(10)


def test_arrows_are_as_far_apart_as_asked_and_rest_is_a_dot():
    image = draw(Scene(flow=constant(0, 0, 90, 120)), Look(style="arrows", spacing=30), 10.0)
    y, x = (image != 255).any(axis=2).nonzero()
    assert sorted(set(np.rint(x / 15).astype(int))) == [1, 3, 5, 7]  # 15, 45, 75, 105
    assert sorted(set(np.rint(y / 15).astype(int))) == [1, 3, 5]
    assert len(x) <= 4 * 3 * 21  # of a radius of 30 / 24 px, with a soft edge


def test_an_unknown_vector_has_no_arrow():
    flow = constant(np.nan, np.nan, 90, 120)
    assert (draw(Scene(flow=flow), Look(style="arrows"), 10.0) == 255).all()


def test_a_streamline_of_a_turn_stays_on_its_circle():
    y, x = np.mgrid[:201, :201].astype(np.float32) - 100
    flow = np.stack([-y, x], -1)
    flow[np.hypot(x, y) < 50] = np.nan  # a ring is left, so that lines have to bend
    flow[np.hypot(x, y) > 80] = np.nan
    image = draw(Scene(flow=flow), Look(style="streamlines", spacing=40), 100.0)
    away = np.hypot(*np.nonzero((image != 255).any(axis=2)) - np.float32([[100], [100]]))
    assert len(away) > 500
    assert away.min() > 50 - 6
    assert away.max() < 80 + 6
    # Right of the middle it goes down: yellow, between (255, 221, 0) and (255, 238, 0).
    right = image[95:106, 150:181].reshape(-1, 3).astype(int)
    assert (np.abs(right - [255, 229, 0]).max(axis=1) < 12).any()


def test_streamlines_end_below_the_noise_floor_and_at_a_fiftieth_of_the_scale():
    for motion, floor, drawn in ((0.19, None, False), (0.21, None, True), (2, 2.5, False)):
        image = draw(
            Scene(flow=constant(motion, 0, 60, 80)),
            Look(style="streamlines", noise_floor=floor),
            10.0,
        )
        assert (image != 255).any() == drawn


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


@pytest.mark.parametrize("style", WITH_LEGEND)
def test_a_legend_beside_widens_the_picture_and_one_inside_does_not(style):
    flow = constant(3, 4, 400, 400)
    plain = show(style, flow)
    beside, inside = (show(style, flow, legend=place) for place in ("beside", "inside"))
    height, width = plain.shape[:2]
    np.testing.assert_array_equal(beside[:, :width], plain)
    assert beside.shape[0] == height
    assert 1.1 * width < beside.shape[1] < 1.4 * width
    assert inside.shape == plain.shape
    np.testing.assert_array_equal(inside[: height // 4], plain[: height // 4])
    assert (inside != plain).any()


@pytest.mark.parametrize("style", WITH_LEGEND)
@pytest.mark.parametrize("scale", [1e-20, 0.001, 1, 99.96, 12345.6, 1e20])
def test_any_scale_has_a_legend(style, scale):
    assert show(style, constant(0, 0, 40, 50), scale=scale, legend="beside").shape[0] >= 40


@pytest.mark.parametrize("style", WITH_LEGEND)
def test_a_picture_without_room_for_a_legend_says_so_and_is_continued_beside(style):
    with pytest.raises(OutputError, match=r"no room for a legend inside.*use --legend beside"):
        show(style, constant(0, 0, 20, 30), legend="inside")
    image = show(style, constant(0, 0, 1, 1), legend="beside")
    assert image.shape[0] > 50


def test_the_wheel_of_the_legend_has_the_colours_of_the_picture():
    # 360 x 360: a unit of 6 px is raised to 8. The strip is 13 units wide, the wheel has a radius
    # of 4.5 units, and its middle is 1 + 5.5 and 1 + 0.25 + 4.5 units from the strip's corner.
    image = show("wheel", constant(0, 0, 360, 360), legend="beside")
    assert image.shape == (360, 360 + 104, 3)
    x, y = 360 + 52, 46
    assert image[y, x].tolist() == pytest.approx([255] * 3, abs=6)
    for u, v in ((1, 0), (0, 1), (-1, 0), (0, -1), (0.6, 0.6)):
        color = image[round(y + 20 * v), round(x + 20 * u)].astype(int)
        expected = flow_to_color(np.float32([[[u * 20 / 36, v * 20 / 36]]]), 1.0)[0, 0]
        assert np.abs(color - expected).max() < 14  # half a pixel off


def test_the_colour_bar_of_the_legend_goes_from_the_bottom_up():
    image = show("heat", constant(0, 0, 360, 360), legend="beside")
    strip = image[:, 360 + 8 :][:, 8]  # 1 + 1 units in: within the bar, 0.4 to 2.2 units
    rows = (strip != 255).any(axis=1).nonzero()[0]
    bar = strip[rows[-1] - 140 : rows[-1] - 1].astype(int)
    assert bar[-1].tolist() == pytest.approx([68, 1, 84], abs=8)
    assert bar[0, 0] > 200


def test_numbers_are_written_with_three_digits():
    values = {0: "0", 0.5: "0.5", 1: "1", 9.994: "9.99", 27.173: "27.2", 99.96: "100", 1234: "1234"}
    assert {value: number(value) for value in values} == values
    assert number(1e-9) == "1.00e-09"


def test_ticks_and_bars_are_round():
    assert round_ticks(27.2) == [0, 10, 20]
    assert round_ticks(1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert round_ticks(7) == [0, 2, 4, 6]
    assert max(len(round_ticks(largest)) for largest in np.geomspace(1, 10, 500)) == MOST_TICKS
    assert bar_length(436, 1024) == 50
    assert bar_length(1, 1) == 50


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
    before = {name: value.tobytes() for name, value in vars(scene).items()}
    for style in STYLES:
        draw(scene, Look(style=style), 10.0)
    assert {name: value.tobytes() for name, value in vars(scene).items()} == before


def test_a_colour_bar_is_as_low_as_its_picture_while_its_numbers_can_be_read():
    # Seven numbers and a space, of 1.4 units of 8 px each, and 3.4 units more, need 116.8 px; and
    # there is a margin of 8 px above and below.
    assert show("heat", constant(0, 0, 140, 200), legend="beside").shape[0] == 140
    assert show("heat", constant(0, 0, 60, 300), legend="beside").shape[0] == 133


@pytest.mark.parametrize("style", WITH_LEGEND)
def test_the_size_of_a_picture_does_not_depend_on_its_scale(style):
    """Or a video, whose scale grows, would end."""
    for height, width in ((30, 90), (150, 200)):
        sizes = {
            show(style, constant(0, 0, height, width), scale=scale, legend="beside").shape
            for scale in np.geomspace(0.9, 2000, 40)
        }
        assert len(sizes) == 1


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


@pytest.mark.parametrize("height", [8, 12, 20, 40])
def test_capitals_are_as_high_as_asked(height):
    canvas = np.full((60, 60, 3), 255, np.uint8)
    draw_text(canvas, "H", 5, 50, height, (0, 0, 0))
    rows = (canvas < 128).any(axis=(1, 2)).nonzero()[0]
    assert len(rows) == pytest.approx(height, abs=1 + height / 20)  # whole pixels, and strokes
