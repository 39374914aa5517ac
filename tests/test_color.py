import math

import numpy as np
import pytest

from pwcflow.color import color_wheel, flow_to_color, largest_magnitude

WHITE, BLACK = [255, 255, 255], [0, 0, 0]


def color_of(u: float, v: float, scale: float | None = 1.0) -> list[int]:
    return flow_to_color(np.array([[[u, v]]], np.float32), scale)[0, 0].tolist()


def published_wheel() -> list[tuple[int, int, int]]:
    """`makecolorwheel` of colorcode.cpp, line by line."""
    ry, yg, gc, cb, bm, mr = 15, 6, 4, 11, 13, 6
    wheel = [(255, 255 * i // ry, 0) for i in range(ry)]
    wheel += [(255 - 255 * i // yg, 255, 0) for i in range(yg)]
    wheel += [(0, 255, 255 * i // gc) for i in range(gc)]
    wheel += [(0, 255 - 255 * i // cb, 255) for i in range(cb)]
    wheel += [(255 * i // bm, 0, 255) for i in range(bm)]
    wheel += [(255, 0, 255 - 255 * i // mr) for i in range(mr)]
    return wheel


def published_color(u: float, v: float) -> list[int]:
    """`computeColor` of colorcode.cpp, line by line, one pixel, in double."""
    wheel = published_wheel()
    radius = math.sqrt(u * u + v * v)
    fk = (math.atan2(-v, -u) / math.pi + 1) / 2 * (len(wheel) - 1)
    k0 = int(fk)
    k1 = (k0 + 1) % len(wheel)
    f = fk - k0
    pixel = []
    for channel in range(3):
        color = (1 - f) * wheel[k0][channel] / 255 + f * wheel[k1][channel] / 255
        color = 1 - radius * (1 - color) if radius <= 1 else color * 0.75
        pixel.append(int(255 * color))
    return pixel


def test_the_wheel_has_the_55_published_colours():
    assert color_wheel().tolist() == [list(color) for color in published_wheel()]
    assert len(color_wheel()) == 55


def test_four_directions_have_the_colours_worked_out_by_hand():
    # Position on the wheel: (atan2(-v, -u) / pi + 1) * 27. RY is 0-14, YG 15-20, GC 21-24,
    # CB 25-35, BM 36-48. Right: 0, red. Down: 13.5, between (255, 221, 0) and (255, 238, 0).
    # Left: 27, third of CB: 255 - 255 * 2 // 11 = 209. Up: 40.5, between 78 and 98 of BM.
    assert color_of(1, 0) == [255, 0, 0]
    assert color_of(0, 1) == [255, 229, 0]
    assert color_of(-1, 0) == [0, 209, 255]
    assert color_of(0, -1) == [88, 0, 255]


def test_colours_equal_the_published_code_to_one_level():
    vectors = np.random.default_rng(0).normal(0, 0.6, (60, 50, 2)).astype(np.float32)
    expected = [[published_color(float(u), float(v)) for u, v in row] for row in vectors]
    actual = flow_to_color(vectors, 1.0).astype(int)
    difference = np.abs(actual - expected)
    assert difference.max() <= 1  # both cut off fractions, here in float32 and there in double
    assert (difference == 0).mean() > 0.98


def compare_with_the_published_code(u, v, scale=1.0):
    """Check flat arrays of vectors, none with a length within rounding of the scale."""
    flow = np.stack([u, v], -1).astype(np.float32)[None]
    expected = [published_color(float(u) / scale, float(v) / scale) for u, v in flow[0]]
    np.testing.assert_allclose(flow_to_color(flow, scale)[0].astype(int), expected, atol=1)


@pytest.mark.parametrize("radius", [0, 1e-3, 0.3, 0.999, 1.001, 40, 1e8])
def test_every_direction_has_its_published_colour(radius):
    angle = np.linspace(0, 2 * np.pi, 5000)
    compare_with_the_published_code(radius * np.cos(angle), radius * np.sin(angle))


def test_both_ends_of_the_wheel_are_where_the_published_code_has_them():
    # Rightward flow is at the first colour, or at the last if it goes up at all: 255 / 6 = 42.5.
    assert color_of(1, 0.0) == color_of(1, 1e-9) == [255, 0, 0]
    assert color_of(1, -0.0) == color_of(1, -1e-9) == [255, 0, 43]
    values = [0.0, -0.0, 1e-30, -1e-30, 1e-7, -1e-7, 1e-3, -1e-3, 0.5, -0.5, 2, -2]
    compare_with_the_published_code(*(part.ravel() for part in np.meshgrid(values, values)))


@pytest.mark.parametrize("scale", [1e-18, 1e-12, 1e-6, 1e6, 3e8])
def test_hues_do_not_depend_on_the_scale(scale):
    u, v = np.random.default_rng(0).normal(0, 0.6 * scale, (2, 500))
    compare_with_the_published_code(u, v, scale)


def test_the_same_vector_has_the_same_colour_in_every_frame():
    colours = []
    for longest in (1, 10, 100):
        flow = np.zeros((4, 4, 2), np.float32)
        flow[0, 0] = longest, 0
        flow[1, 1] = -0.7, 0.4
        colours.append(flow_to_color(flow, max_magnitude_px=100)[1, 1].tolist())
    assert colours[0] == colours[1] == colours[2]


def test_the_noise_of_a_static_scene_is_white():
    noise = np.random.default_rng(0).uniform(-0.01, 0.01, (50, 50, 2)).astype(np.float32)
    assert flow_to_color(noise).min() >= 250


def test_without_a_scale_the_longest_known_vector_is_saturated():
    flow = np.array([[[30, 40], [3, 4], [1e10, 0], [np.nan, 0]]], np.float32)
    assert largest_magnitude(flow) == 50
    # (3, 4) / 50 has radius 0.1; full saturation needs no channel left of white
    image = flow_to_color(flow)[0]
    assert image[0].min() == 0
    assert image[1].min() == int(255 * 0.9)
    assert image[2:].tolist() == [BLACK, BLACK]


def test_the_longest_vector_is_never_darkened_by_rounding():
    angles = np.linspace(0, 2 * np.pi, 300)
    for scale in (1.1, 3.3, 777.7):
        flow = np.stack([np.cos(angles), np.sin(angles)], -1)[None].astype(np.float32) * scale
        for vector in flow[0]:
            assert flow_to_color(vector[None, None]).max() == 255


@pytest.mark.parametrize("v", [0, 0.5, -0.5])
def test_leftward_flow_keeps_its_hue_under_a_small_scale(v):
    inside, outside = np.array(color_of(-1, v, 4)), np.array(color_of(-8, 8 * v, 4))
    assert inside.tolist() != WHITE
    assert outside.argmax() == inside.argmax()
    assert outside.argmin() == inside.argmin()


def test_beyond_the_scale_colours_are_darkened_by_a_quarter():
    assert color_of(2, 0) == [191, 0, 0]
    assert color_of(1e8, 0) == [191, 0, 0]


def test_zero_is_white():
    assert color_of(0, 0) == WHITE
    assert color_of(0, 0, None) == WHITE
    assert color_of(-0.0, -0.0, None) == WHITE


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e10, -1e10, 3e38])
@pytest.mark.parametrize("scale", [None, 5.0])
def test_unknown_pixels_are_black_and_change_no_other(value, scale):
    flow = np.array([[[value, 0], [0, value], [value, value], [1, 1]]], np.float32)
    image = flow_to_color(flow, scale)[0]
    assert image[:3].tolist() == [BLACK] * 3
    assert image[3].tolist() == color_of(1, 1, scale)


def test_components_of_a_thousand_million_are_known():
    flow = np.array([[[1e9, 1e9], [-1e9, 0], [np.nextafter(np.float32(1e9), 2e9), 0]]], np.float32)
    assert largest_magnitude(flow) == pytest.approx(math.sqrt(2) * 1e9)
    image = flow_to_color(flow)[0]
    assert image[0].tolist() == color_of(1e9, 1e9, None)
    assert image[0].max() == 255
    assert image[1].tolist() == color_of(-1e9, 0, math.sqrt(2) * 1e9)
    assert image[2].tolist() == BLACK


def test_unknown_pixels_here_and_there_leave_the_others_as_they_are():
    rng = np.random.default_rng(0)
    flow = rng.normal(0, 3, (300, 211, 2)).astype(np.float32)
    unknown = rng.random((300, 211)) < 0.3
    damaged = np.where(unknown[..., None], rng.choice([np.nan, np.inf, -2e9], flow.shape), flow)
    expected = np.where(unknown[..., None], 0, flow_to_color(flow, 4))
    np.testing.assert_array_equal(flow_to_color(damaged.astype(np.float32), 4), expected)


def test_a_flow_with_no_known_pixel_is_black():
    flow = np.full((3, 2, 2), np.nan, np.float32)
    assert largest_magnitude(flow) == 0
    assert flow_to_color(flow).tolist() == [[BLACK] * 2] * 3


def test_every_block_of_a_large_flow_is_painted():
    flow = np.zeros((70, 1111, 2), np.float32)
    flow[..., 0] = np.arange(70)[:, None]
    flow[..., 1] = np.linspace(-50, 50, 1111)
    image = flow_to_color(flow, 80)
    for y, x in [(0, 0), (28, 5), (29, 1110), (30, 0), (69, 1110)]:
        assert image[y, x].tolist() == color_of(*flow[y, x], 80)


def test_other_layouts_and_types_have_the_same_colours():
    flow = np.random.default_rng(0).integers(-9, 10, (40, 30, 2))
    expected = flow_to_color(flow.astype(np.float32))
    for same in (flow, flow.astype(np.float64), np.asfortranarray(flow, np.float32)):
        np.testing.assert_array_equal(flow_to_color(same), expected)
    strided = np.repeat(flow, 2, axis=1).astype(np.float32)[:, ::2]
    np.testing.assert_array_equal(flow_to_color(strided), expected)


@pytest.mark.parametrize("shape", [(0, 5, 2), (5, 0, 2), (0, 0, 2)])
def test_a_flow_without_pixels_is_an_image_without_pixels(shape):
    flow = np.zeros(shape, np.float32)
    assert flow_to_color(flow).shape == (*shape[:2], 3)
    assert largest_magnitude(flow) == 0


@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf])
def test_a_scale_that_is_not_positive_is_a_value_error(scale):
    with pytest.raises(ValueError, match="scale"):
        color_of(1, 0, scale)


@pytest.mark.parametrize("shape", [(2, 2), (2, 2, 3), (1, 2, 2, 2)])
def test_a_shape_that_is_no_flow_is_a_value_error(shape):
    with pytest.raises(ValueError, match=r"\(H, W, 2\)"):
        flow_to_color(np.zeros(shape, np.float32))


def test_the_flow_is_left_as_it_was():
    flow = np.array([[[np.nan, 1], [2, 3]]], np.float32)
    before = flow.tobytes()
    flow_to_color(flow)
    assert flow.tobytes() == before


@pytest.mark.parametrize("scale", [1e-300, 1e-50, 1e50, 1e300])
def test_scales_past_what_float32_holds_give_a_picture_and_no_warning(scale):
    flow = np.full((2, 3, 2), 5.0, np.float32)
    image = flow_to_color(flow, scale)
    # Far above the scale a color is darkened to 3/4; far below it all is white.
    expected = 191 if scale < 1 else 255
    assert image.max() == expected
