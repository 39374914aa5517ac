"""The network for inference gives the flow of the plain one, on the CPU and on a GPU."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pwcflow.image_file import read_image
from pwcflow.inference import ChannelsLastNetwork, ExactNetwork
from pwcflow.inference.convolution import convolve_and_append
from pwcflow.network import PYRAMID_CHANNELS, PwcNet
from pwcflow.ops import FLOW_SCALE, prepare_images
from pwcflow.weights import load_weights

from .features import DEVICES
from .moving_textures import moved_pair

IMAGES = Path(__file__).parents[1] / "images"
SIZES = [(64, 64), (64, 192), (192, 128), (128, 320)]
# Largest difference of one pixel, in px, where everything is in float32; else the mean difference.
GPU_BOUNDS = {torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.3}


@pytest.fixture(scope="module")
def state():
    return load_weights("default").state


@pytest.fixture(scope="module")
def plain(state):
    network = PwcNet()
    network.load_state_dict(state)
    return network.requires_grad_(False)


@pytest.fixture(scope="module")
def network(state):
    return ChannelsLastNetwork(state, torch.float32, torch.device("cpu"))


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.inference_mode():
        yield


def seen(*images, dtype=torch.float32, device="cpu"):
    """Return images of one size, multiples of 64, as the network wants them."""
    pixels = torch.from_numpy(np.stack(images)).to(device)
    return prepare_images(pixels, *pixels.shape[1:3], dtype)


def cropped(height, width, *, x=300, y=100):
    """Return a part of the two images that come with the package."""
    pair = (read_image(IMAGES / name) for name in ("one.png", "two.png"))
    return tuple(np.ascontiguousarray(i[y : y + height, x : x + width]) for i in pair)


def flow_of(network, first, second):
    """Return the flow in pixels; of the plain network too, which sees three channels."""
    if isinstance(network, PwcNet):
        return FLOW_SCALE * network(first[:, :3], second[:, :3])[-1]
    return FLOW_SCALE * network.decode(network.encode(first), network.encode(second))


def largest(difference):
    return float(difference.abs().max())


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_flow_is_the_plain_network_s(height, width, network, plain):
    for pair in (cropped(height, width), moved_pair(height, width, 3, 1)):
        first, second = map(seen, pair)
        flow = flow_of(network, first, second)
        assert flow.shape == (1, 2, height // 4, width // 4)
        assert flow.dtype == torch.float32
        expected = flow_of(plain, first, second)
        assert largest(expected) > 0.5
        # The plain network in float32 is as far as 1e-5 from what it gives in float64: two that
        # round otherwise are twice that apart at most.
        assert largest(flow - expected) <= 2e-5 * largest(expected)


def test_half_precision_follows_what_is_faint_and_bright(state, plain):
    # 21 gray levels about 235. Without what rounding leaves over of the first layer the flow would
    # be off by 0.008 px on average, without that of the images by 0.0015 px.
    pair = [np.rint(225 + 0.08 * image.astype(float)) for image in moved_pair(64, 128, 3, 1)]
    pair = [image.astype(np.uint8) for image in pair]
    expected = flow_of(plain, *map(seen, pair))
    half = ChannelsLastNetwork(state, torch.float16, torch.device("cpu"))
    found = flow_of(half, *(seen(image, dtype=torch.float16) for image in pair))
    assert (found - expected).abs().mean() <= 0.001


def test_bf16_follows_noise_of_one_gray_level_on_the_cpu(plain):
    noise = np.random.default_rng(0).integers(-1, 2, (212, 276, 3))
    first, second = (
        240 + noise[10 - dy : 202 - dy, 10 - dx : 266 - dx] for dx, dy in [(0, 0), (3, 2)]
    )
    network = ExactNetwork(copy.deepcopy(plain).set_precision(torch.bfloat16))
    pair = (seen(image.astype(np.uint8), dtype=torch.bfloat16) for image in (first, second))
    u, v = flow_of(network, *pair)[0].mean((1, 2)).tolist()
    # With level 1 in bfloat16 they are 0.1 and 0.04.
    assert (u, v) == pytest.approx((3, 2), abs=0.1)


def test_a_batch_has_the_plain_network_s_flow_and_that_of_each_pair_alone(network, plain):
    pairs = moved_pair(64, 128, 3, 1), moved_pair(64, 128, -4, 2, seed=1)
    first, second = (seen(*images) for images in zip(*pairs, strict=True))
    flow = flow_of(network, first, second)
    assert largest(flow - flow_of(plain, first, second)) <= 1e-4
    for i in range(2):
        alone = flow_of(network, first[i : i + 1], second[i : i + 1])
        assert largest(flow[i : i + 1] - alone) <= 1e-4
    assert largest(flow[0] - flow[1]) > 1


def test_the_pairs_are_from_the_first_image_to_the_second(network):
    u, v = flow_of(network, *map(seen, moved_pair(128, 192, 5, -2)))[0, :, 8:-8, 8:-8]
    assert float(u.median()) == pytest.approx(5, abs=0.5)
    assert float(v.median()) == pytest.approx(-2, abs=0.5)


def test_the_weights_that_it_was_given_stay_as_they_are(state):
    before = {key: value.clone() for key, value in state.items()}
    ChannelsLastNetwork(state, torch.float32, torch.device("cpu"))
    assert all(torch.equal(value, before[key]) for key, value in state.items())


def test_the_exact_network_is_the_plain_one(plain):
    exact = ExactNetwork(plain)
    assert exact.dtype == torch.float32
    first, second = map(seen, cropped(64, 128))
    expected = flow_of(plain, first, second)
    found = flow_of(exact, first, second)
    assert largest(found - expected) <= 1e-4
    pyramids = [exact.empty_pyramid(1, 64, 128) for _ in range(2)]
    for image, pyramid in zip((first, second), pyramids, strict=True):
        assert exact.encode(image, into=pyramid) is pyramid
    assert torch.equal(FLOW_SCALE * exact.decode(*pyramids), found)


def test_a_fused_network_is_another_of_the_same_weights(network, plain):
    first, second = map(seen, moved_pair(64, 128, 3, 1))
    fused = network.fused()
    assert fused is not network
    assert largest(flow_of(fused, first, second) - flow_of(plain, first, second)) <= 1e-4


def test_features_have_their_levels_channels_filled_up_to_multiples_of_8(network):
    first, second = map(seen, cropped(64, 128))
    pyramid = network.encode(torch.cat((first, second)))
    assert set(pyramid) == set(PYRAMID_CHANNELS)
    for level, feature in pyramid.items():
        channels = PYRAMID_CHANNELS[level]
        filled = -(-channels // 8) * 8
        assert feature.shape == (2, filled, 64 >> level, 128 >> level)
        assert feature.is_contiguous(memory_format=torch.channels_last)
        assert bool((feature[:, channels:] == 0).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_a_result_is_put_in_front_of_what_the_convolution_read(device, dtype):
    # Whole numbers and their halves below 128: half precision holds all of them exactly.
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randint(-1, 2, shape, generator=generator).float()
        for shape in [(2, 8, 5, 7), (16, 8, 3, 3), (16,)]
    )
    result = F.conv2d(x.double(), weight.double(), bias.double(), padding=1)
    expected = torch.cat((torch.where(result < 0, 0.5 * result, result), x.double()), 1)
    x, weight = (
        tensor.to(device, dtype, memory_format=torch.channels_last) for tensor in (x, weight)
    )
    found = convolve_and_append(x, weight, bias.to(device, dtype), 0.5)
    assert torch.equal(found.cpu().double(), expected)
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("device", DEVICES)
def test_features_can_be_written_to_memory_that_is_there(device, state):
    network = ChannelsLastNetwork(state, torch.float32, torch.device(device))
    first, second = (seen(image, device=device) for image in cropped(64, 128))
    expected = network.encode(second)
    empty = network.empty_pyramid(1, 64, 128)
    for before in (network.encode(first), empty):
        places = {level: feature.data_ptr() for level, feature in before.items()}
        again = network.encode(second, into=before)
        assert {level: feature.data_ptr() for level, feature in again.items()} == places
        for level, feature in expected.items():
            assert torch.equal(before[level], feature)
            assert torch.equal(again[level], feature)


@pytest.mark.parametrize("device", DEVICES)
def test_features_can_be_written_behind_those_of_another_image(device, state):
    network = ChannelsLastNetwork(state, torch.float32, torch.device(device))
    first, second = (seen(image, device=device) for image in cropped(64, 128))
    pyramid = network.empty_pyramid(2, 64, 128)
    network.encode(first, {level: feature[:1] for level, feature in pyramid.items()})
    network.encode(second, {level: feature[1:] for level, feature in pyramid.items()})
    for i, image in enumerate((first, second)):
        for level, feature in network.encode(image).items():
            torch.testing.assert_close(pyramid[level][i : i + 1], feature, rtol=1e-4, atol=1e-5)


def test_bf16_stays_near_float32_on_the_cpu(state, plain):
    pair = moved_pair(64, 128, 3, 1)
    expected = flow_of(plain, *map(seen, pair))
    network = ChannelsLastNetwork(state, torch.bfloat16, torch.device("cpu"))
    flow = flow_of(network, *(seen(image, dtype=torch.bfloat16) for image in pair))
    assert flow.dtype == torch.float32
    assert 0 < float((flow - expected).abs().mean()) <= 0.02


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("dtype", "fused"), [*((dtype, False) for dtype in GPU_BOUNDS), (torch.float16, True)], ids=str
)
def test_the_gpu_gives_the_plain_network_s_flow_on_the_cpu(dtype, fused, state, plain):
    network = ChannelsLastNetwork(state, dtype, torch.device("cuda"))
    network = network.fused() if fused else network
    pairs = moved_pair(64, 128, 3, 1, seed=2), moved_pair(64, 128, -4, 2, seed=1)
    for pair in pairs:
        expected = flow_of(plain, *map(seen, pair))
        flow = flow_of(network, *(seen(image, dtype=dtype, device="cuda") for image in pair))
        assert flow.dtype == torch.float32
        difference = (flow.cpu() - expected).abs()
        error = difference.max() if dtype == torch.float32 else difference.mean()
        print(dtype, float(error), float(difference.max()))
        assert float(error) <= GPU_BOUNDS[dtype]


@pytest.mark.gpu
def test_the_gpu_takes_one_pixel_at_the_coarsest_level_and_batches(state, plain):
    network = ChannelsLastNetwork(state, torch.float32, torch.device("cuda"))
    pairs = moved_pair(64, 64, 3, 1, seed=3), moved_pair(64, 64, -2, 1, seed=1)
    first, second = (seen(*images) for images in zip(*pairs, strict=True))
    expected = flow_of(plain, first, second)
    flow = flow_of(network, first.cuda(), second.cuda())
    assert largest(flow.cpu() - expected) <= 1e-3
