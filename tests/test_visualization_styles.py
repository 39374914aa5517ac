"""What each style shows, worked out by hand."""

import numpy as np
import pytest

from pwcflow.visualization import Look, Scene, draw
from pwcflow.visualization.occlusion import occluded_pixels
from tests.visualization_scene import constant, only_color, scene_of, show


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
