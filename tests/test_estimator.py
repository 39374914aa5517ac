"""From images to flow in pixels: sizes, scales, batches."""

import numpy as np
import pytest
import torch

from pwcflow import FlowEstimator
from pwcflow.errors import WeightsError
from pwcflow.network import network_size
from pwcflow.ops import finish_flow

from .features import DEVICES
from .moving_textures import estimator, moved_pair, network_images


def test_network_size_is_the_next_multiple_of_64():
    sizes = [network_size(h, w) for h, w in ((1, 63), (64, 65), (436, 1024))]
    assert sizes == [(64, 64), (64, 128), (448, 1024)]


def test_the_finest_flow_becomes_pixels_of_the_image_by_each_axis_own_factors():
    # 48 x 32 was seen as 64 x 64, so its flow is 16 x 16: three columns and two rows a value.
    ramp = torch.arange(16.0)
    flow = torch.stack((ramp.expand(16, 16), ramp.expand(16, 16).T))[None]
    u, v = finish_flow(flow, 32, 48)[0][0].unbind(-1)
    # Centres of columns lie at (x + 1/2) / 3 - 1/2, at least 0 and at most 15; each is 20 x 48/64.
    columns = torch.tensor([0, *range(0, 226, 5), 225.0])
    rows = torch.tensor([0, *(2.5 + 5 * y for y in range(30)), 150.0])  # each 20 x 32/64
    torch.testing.assert_close(u, columns.expand(32, 48), rtol=0, atol=1e-4)
    torch.testing.assert_close(v, rows.expand(48, 32).T, rtol=0, atol=1e-4)


def test_a_constant_flow_is_only_scaled():
    flow = torch.tensor([1.0, -2.0]).view(1, 2, 1, 1).expand(1, 2, 32, 32)  # of 96 x 100
    expected = torch.tensor([20 * 96 / 128, -2 * 20 * 100 / 128]).expand(1, 100, 96, 2)
    torch.testing.assert_close(finish_flow(flow, 100, 96)[0], expected, rtol=1e-6, atol=0)


def test_images_are_stretched_bilinearly_about_the_centres_of_pixels():
    image = np.random.default_rng(0).random((70, 100, 3))
    expected = image
    for axis, (size, seen) in enumerate([(70, 128), (100, 128)]):
        position = ((np.arange(seen) + 0.5) * size / seen - 0.5).clip(0, size - 1)
        distance = np.abs(position[:, None] - np.arange(size))
        expected = np.moveaxis(
            np.tensordot((1 - distance).clip(0), expected, axes=(1, axis)), 0, axis
        )
    (seen,) = network_images(estimator(), image)
    actual = seen[0].permute(1, 2, 0).numpy()[..., ::-1]  # the network sees BGR
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_flow_is_in_pixels_of_each_axis_own_scale_at_sizes_that_are_no_multiples_of_64(device):
    # 100 x 50 is stretched by 1.28 in each axis; 200 x 70 by 1.28 and 1.83.
    for width, height, dx, dy in [(100, 50, 6, 0), (200, 70, 0, 4), (200, 70, 5, 0)]:
        flow = estimator(device)(*moved_pair(height, width, dx, dy))
        assert flow.shape == (height, width, 2)
        assert flow.dtype == np.float32
        u, v = np.median(flow[10:-10, 10:-10].reshape(-1, 2), axis=0)
        assert abs(u - dx) < 1.0, (width, height, u, v)
        assert abs(v - dy) < 1.0, (width, height, u, v)


@pytest.mark.parametrize("device", DEVICES)
def test_twenty_pixels_come_out_as_twenty_not_one_and_not_four_hundred(device):
    flow = estimator(device)(*moved_pair(256, 384, 20, 0))
    u, v = np.median(flow[40:-40, 40:-40].reshape(-1, 2), axis=0)
    assert abs(u - 20) < 1.5
    assert abs(v) < 1.0


@pytest.mark.parametrize("device", DEVICES)
def test_any_size_works_and_gives_finite_flow_of_that_size(device):
    sizes = [(1, 1), (1, 500), (500, 1), (2, 3), (16, 16), (48, 48), (64, 64), (480, 640)]
    sizes += [(64 + 7 * i % 137, 64 + 11 * i % 131) for i in range(0, 20, 4)]
    for height, width in sizes:
        flow = estimator(device)(*moved_pair(height, width, 1, 0))
        assert flow.shape == (height, width, 2)
        assert np.isfinite(flow).all(), (height, width)


SIZES = range(64, 201, 7)


def test_sizes_from_64_to_200_work_square_wide_and_tall():
    pairs = [*((size, size) for size in SIZES[::2]), *zip(SIZES[::2], SIZES[::-2], strict=True)]
    for height, width in pairs:
        flow = estimator()(*moved_pair(height, width, 1, 1))
        assert flow.shape == (height, width, 2)
        assert np.isfinite(flow).all(), (height, width)


@pytest.mark.gpu
def test_every_size_from_64_to_200_in_steps_of_7_and_the_common_video_sizes_work():
    sizes = [(height, width) for height in SIZES for width in SIZES]
    for height, width in [*sizes, (480, 640), (480, 854), (720, 1280), (1080, 1920)]:
        flow = estimator("cuda")(*moved_pair(height, width, 1, 1))
        assert flow.shape == (height, width, 2)
        assert np.isfinite(flow).all(), (height, width)


@pytest.mark.parametrize("device", DEVICES)
def test_a_pair_alone_equals_the_same_pair_in_a_batch(device):
    one, two = moved_pair(90, 130, 3, 1), moved_pair(90, 130, -4, 2, seed=1)
    alone = [estimator(device)(*pair) for pair in (one, two)]
    different = estimator(device)(np.stack((one[0], two[0])), np.stack((one[1], two[1])))
    identical = estimator(device)(np.stack((one[0], one[0])), np.stack((one[1], one[1])))
    assert different.shape == (2, 90, 130, 2)
    assert np.abs(different[0] - alone[0]).max() <= 1e-3
    assert np.abs(different[1] - alone[1]).max() <= 1e-3
    assert np.abs(identical[0] - alone[0]).max() <= 1e-3
    assert np.abs(identical[1] - identical[0]).max() <= 1e-3


def test_encode_and_decode_give_what_a_call_gives():
    first, second = moved_pair(70, 90, 2, 0)
    model = estimator()
    encoded = model.encode(first), model.encode(second)
    assert np.array_equal(model.decode(*encoded), model(first, second))
    assert not np.array_equal(model.decode(*encoded[::-1]), model(first, second))


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 70, 3), (70, 1, 3), (9, 7, 1)], ids=str)
def test_images_may_run_backwards_even_along_an_axis_of_one(shape):
    images = np.random.default_rng(0).integers(0, 256, (2, *shape), np.uint8)
    backwards = images[:, ::-1, ::-1, ::-1]
    flow = estimator()(backwards[0], backwards[1])
    assert np.array_equal(flow, estimator()(*backwards.copy()))


def test_weights_that_give_no_finite_flow_are_an_error():
    broken = FlowEstimator(device="cpu")
    broken._network.plain.context[-1].bias[0] = float("nan")
    with pytest.raises(WeightsError, match="weights default give no finite flow in fp32"):
        broken(*moved_pair(64, 64, 1, 0))
