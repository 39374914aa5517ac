import numpy as np
import pytest

from pwcflow.color import ColorCode, flow_over_image, flow_to_color
from pwcflow.color.palette import palette

COLORBLIND = ColorCode(palette="colorblind")

# What is seen by those who lack one kind of cone, in linear RGB. Source: Machado, Oliveira,
# Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", TVCG 2009,
# the matrices of severity 1.
DICHROMATS = {
    "protanope": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranope": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanope": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def color_of(u, v, scale=1.0, code=COLORBLIND):
    return flow_to_color(np.array([[[u, v]]], np.float32), scale, code)[0, 0].tolist()


def lab_of(rgb):
    """sRGB from 0 to 255 as CIELAB, by the definitions, for a white of D65."""
    share = np.asarray(rgb, float) / 255
    linear = np.where(share > 0.04045, ((share + 0.055) / 1.055) ** 2.4, share / 12.92)
    return lab_of_linear(linear)


def lab_of_linear(linear):
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
    xyz = np.clip(linear, 0, 1) @ np.transpose(to_xyz) / [0.95047, 1, 1.08883]
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = np.moveaxis(f, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


def test_the_circle_lies_in_a_plane_of_cielab():
    # L* = 57 - 32 v; (a*, b*) = u (32, 52) to the right and -u (3, -46) to the left
    expected = {
        (1, 0): (57, 32, 52),
        (-1, 0): (57, 3, -46),
        (0, 1): (25, 0, 0),
        (0, -1): (89, 0, 0),
    }
    for vector, lab in expected.items():
        # one level of 255 is up to half a unit
        np.testing.assert_allclose(lab_of(color_of(*vector)), lab, atol=1)
    np.testing.assert_allclose(lab_of(color_of(0, 0)), (57, 0, 0), atol=1)


def test_the_circle_closes_and_has_no_jump():
    rim = palette("colorblind").rim
    np.testing.assert_allclose(rim[0], rim[-1], atol=1e-6)
    assert np.abs(np.diff(rim, axis=0)).max() < 1


def test_half_the_scale_is_half_way_from_gray_and_beyond_it_nothing_changes():
    gray, orange = np.array(color_of(0, 0)), np.array(color_of(1, 0))
    assert len(set(gray)) == 1
    np.testing.assert_allclose(color_of(0.5, 0), (gray + orange) / 2, atol=1)
    assert color_of(30, 0) == orange.tolist()


@pytest.mark.parametrize("who", DICHROMATS)
def test_who_lacks_a_kind_of_cone_tells_all_directions_and_speeds_apart(who):
    # 12 directions at two speeds, and rest. Seen in Middlebury's colours, some of them are alike.
    angles = np.radians(np.arange(0, 360, 30))
    circle = np.stack([np.cos(angles), np.sin(angles)], -1)
    vectors = np.concatenate([circle, circle / 2, [[0, 0]]])[None].astype(np.float32)

    def nearest(code):
        share = flow_to_color(vectors, 1.0001, code)[0] / 255
        linear = np.where(share > 0.04045, ((share + 0.055) / 1.055) ** 2.4, share / 12.92)
        seen = lab_of_linear(linear @ np.transpose(DICHROMATS[who]))
        apart = np.linalg.norm(seen[:, None] - seen, axis=2)
        return apart[~np.eye(len(apart), dtype=bool)].min()

    assert nearest(COLORBLIND) > 6  # about 2 is what the eye can tell apart side by side
    assert nearest(COLORBLIND) > 1.5 * nearest(ColorCode())


# what a ColorCode says


def test_on_black_rest_is_black_and_the_faster_are_lightened():
    code = ColorCode(background="black")
    assert color_of(0, 0, code=code) == [0, 0, 0]
    assert color_of(1, 0, code=code) == [255, 0, 0]
    assert color_of(0.5, 0, code=code) == [127, 0, 0]
    assert color_of(-0.5, 0, code=code) == [0, 104, 127]  # half of (0, 209, 255)
    # 255 - 0.75 * (255 - 0) = 63.75
    assert color_of(9, 0, code=code) == [255, 63, 63]
    assert color_of(np.nan, 0, code=code) == [128, 128, 128]


def test_gamma_lifts_slow_motion():
    # 0.25 ** (1 / 2) = 0.5: half of green and blue is gone
    assert color_of(0.25, 0, code=ColorCode(gamma=2.0)) == [255, 127, 127]
    assert color_of(1, 0, code=ColorCode(gamma=2.0)) == [255, 0, 0]
    # 0.5 ** 2 = 0.25: 255 * 0.75 = 191.25
    assert color_of(0.5, 0, code=ColorCode(gamma=0.5)) == [255, 191, 191]


def test_motion_up_to_the_noise_floor_is_none_and_above_it_begins_at_nothing():
    code = ColorCode(noise_floor_px=2.0)
    for still in (0, 1, 2):
        assert color_of(still, 0, 10.0, code) == [255, 255, 255]
    # (6 - 2) / (10 - 2) = 0.5; (2.4 - 2) / 8 = 0.05: 255 * 0.95 = 242.25
    assert color_of(6, 0, 10.0, code) == [255, 127, 127]
    assert color_of(2.4, 0, 10.0, code) == [255, 242, 242]
    assert color_of(10, 0, 10.0, code) == [255, 0, 0]


def test_a_static_scene_stays_white_below_the_noise_floor_whatever_gamma_says():
    noise = np.random.default_rng(0).uniform(-0.3, 0.3, (20, 30, 2)).astype(np.float32)
    assert flow_to_color(noise, None, ColorCode(noise_floor_px=0.5, gamma=3.0)).min() == 255
    assert flow_to_color(noise, None, ColorCode(gamma=3.0)).min() < 200


def test_a_flow_that_is_mostly_noise_gets_a_scale_of_twice_the_floor():
    # 3 px of 4, floor 2: half way
    flow = np.array([[[3, 0]]], np.float32)
    assert flow_to_color(flow, None, ColorCode(noise_floor_px=2.0)).tolist() == [[[255, 127, 127]]]


def test_a_scale_below_the_noise_floor_is_a_value_error():
    with pytest.raises(ValueError, match="above the noise floor"):
        color_of(1, 0, 2.0, ColorCode(noise_floor_px=2.0))


@pytest.mark.parametrize("name", ["middlebury", "colorblind"])
def test_unknown_pixels_have_the_colour_asked_for(name):
    code = ColorCode(palette=name, unknown=(255, 0, 255))
    flow = np.array([[[np.nan, 0], [0, np.inf], [1e10, 0], [0, 0]]], np.float32)
    image = flow_to_color(flow, 1.0, code)[0].tolist()
    assert image[:3] == [[255, 0, 255]] * 3
    assert image[3] != [255, 0, 255]


def test_flow_over_white_at_full_opacity_is_the_wheel():
    flow = np.random.default_rng(0).normal(0, 3, (40, 50, 2)).astype(np.float32)
    flow[3, 4] = np.nan
    white = np.full((40, 50, 3), 255, np.uint8)
    over = flow_over_image(flow, white, 1.0, 5.0).astype(int)
    # one rounds, the other cuts off, as Middlebury's program does
    assert np.abs(over - flow_to_color(flow, 5.0)).max() <= 1


def test_an_image_of_another_size_is_a_value_error():
    with pytest.raises(ValueError, match="has its size"):
        flow_over_image(np.zeros((4, 5, 2), np.float32), np.zeros((5, 4, 3), np.uint8), 1.0)
