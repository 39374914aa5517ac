import zlib

import cv2
import numpy as np
import pytest

from pwcflow.errors import ImageError
from pwcflow.viewer.encoding import UNKNOWN, encode_flow, encode_picture, sampled, step_for


def decoded(encoded):
    """Undo the prediction one value at a time: value = error + left + above - above left."""
    height, width = encoded.height, encoded.width
    data = zlib.decompress(encoded.data)
    size = 2 * height * width
    assert len(data) == 2 * size
    planes = np.zeros((2, height + 1, width + 1), int)
    for place in range(size):
        code = data[place] + 256 * data[size + place]
        error = -(code + 1) // 2 if code % 2 else code // 2
        plane, rest = divmod(place, height * width)
        y, x = divmod(rest, width)
        near = planes[plane, y : y + 2, x : x + 2]
        near[1, 1] = (error + near[1, 0] + near[0, 1] - near[0, 0] + 32768) % 65536 - 32768
    return planes[:, 1:, 1:].transpose(1, 2, 0)


@pytest.mark.parametrize(
    ("scale", "step"),
    [
        (1.0, 1 / 512),
        (8.0, 1 / 64),
        (26.1, 1 / 32),
        (32.0, 1 / 16),
        (1000.0, 1 / 16),
        (5e-324, 2.0**-126),
    ],
)
def test_a_step_is_a_power_of_two_and_at_most_a_512th_of_the_scale_but_no_less_than_float32_has(
    scale, step
):
    assert step_for(scale) == step


def test_a_flow_is_rounded_to_the_nearest_step_half_to_even():
    flow = np.array([[(0.25, -0.25), (0.13, 0.12)], [(0.375, 100), (-3, 0)]], np.float32)
    encoded = encode_flow(flow, 0.25)
    assert encoded[:4] == (2, 2, 0.25, 0)
    assert decoded(encoded).tolist() == [[[1, -1], [1, 0]], [[2, 400], [-12, 0]]]


def test_unknown_pixels_are_marked_in_both_components_and_counted():
    flow = np.zeros((2, 3, 2), np.float32)
    flow[0, 1] = np.nan, 1
    flow[1, 0] = 1, 2e9
    flow[1, 2] = -np.inf, 0
    encoded = encode_flow(flow, 0.5)
    assert encoded.unknown == 3
    unknown = [UNKNOWN, UNKNOWN]
    assert decoded(encoded).tolist() == [
        [[0, 0], unknown, [0, 0]],
        [unknown, [0, 0], unknown],
    ]


def test_the_step_is_doubled_until_the_largest_component_fits():
    flow = np.zeros((1, 2, 2), np.float32)
    flow[0, 0] = 32767, -32768  # 32767 steps of 1 px are too few for the second
    encoded = encode_flow(flow, 1.0)
    assert encoded.step_px == 2.0
    assert decoded(encoded)[0, 0].tolist() == [16384, -16384]
    flow[0, 0] = 1e9, 0  # the largest that is known
    encoded = encode_flow(flow, 1 / 16)
    assert encoded.step_px == 2**15  # 1e9 / 32767 is 30518.5
    assert decoded(encoded)[0, 0, 0] == 30518


def test_prediction_wraps_around_and_comes_back():
    random = np.random.default_rng(3)
    values = random.integers(-32767, 32768, (7, 5, 2))
    encoded = encode_flow(values.astype(np.float32), 1.0)
    assert (decoded(encoded) == values).all()


def test_affine_motion_is_predicted_without_an_error():
    y, x = np.mgrid[:100, :200].astype(np.float32)
    flow = np.stack([0.5 * x - 0.25 * y, 0.25 * x + y], -1)
    assert len(encode_flow(flow, 0.25).data) < 500  # of 80,000


def test_a_smaller_flow_has_the_vectors_in_the_middles_of_its_cells():
    y, x = np.mgrid[:6, :9].astype(np.float32)
    small = sampled(np.stack([x, y], -1), 3, 2)
    assert small[..., 0].tolist() == [[1, 4, 7]] * 2
    assert small[..., 1].tolist() == [[1, 1, 1], [4, 4, 4]]


@pytest.mark.parametrize(
    ("dtype", "white"), [(np.uint8, 200), (np.uint16, 200 * 257), (np.float32, 200 / 255)]
)
def test_pictures_of_every_depth_become_8_bits(dtype, white):
    image = np.zeros((16, 16, 3), dtype)
    image[..., 0] = white
    webp = encode_picture(image, "frame 0")
    assert webp[:4] == b"RIFF"
    assert webp[8:12] == b"WEBP"
    blue, green, red = cv2.imdecode(np.frombuffer(webp, np.uint8), cv2.IMREAD_COLOR)[8, 8]
    assert abs(int(red) - 200) <= 4
    assert max(green, blue) <= 4


def test_a_picture_too_wide_for_webp_is_named():
    with pytest.raises(ImageError, match=r"^frame 3 of a: a picture of 16384 x 1 pixels.*max-side"):
        encode_picture(np.zeros((1, 16384, 3), np.uint8), "frame 3 of a")
