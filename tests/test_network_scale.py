"""The network may see images larger or smaller than they are; flow stays theirs."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from typer import BadParameter

from pwcflow import FlowEstimator, write_image
from pwcflow.cli.options import network_scale
from pwcflow.estimator import NETWORK_SCALES
from pwcflow.network import network_size
from tests.command_line import invoke
from tests.features import DEVICES
from tests.moving_textures import estimator, moved_pair, network_images, texture, video


def test_a_scale_comes_before_the_next_multiple_of_64():
    # 654 x 1536, 704.0000000000001 x 352, 32 x 0.5
    assert network_size(436, 1024, 1.5) == (704, 1536)
    assert network_size(640, 320, 1.1) == (704, 384)
    assert network_size(64, 1, 0.5) == (64, 64)


@pytest.mark.parametrize(("scale", "size"), [(2.0, (128, 192)), (1.25, (64, 128)), (0.5, (64, 64))])
def test_the_network_sees_images_of_the_scaled_size(scale, size):
    image = texture(50, 90)
    (seen,) = network_images(estimator(network_scale=scale), image)
    pixels = torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255
    expected = F.interpolate(pixels, size, mode="bilinear", align_corners=False).flip(1)
    torch.testing.assert_close(seen, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scale", [0.5, 1.5, 2.0])
def test_flow_is_in_pixels_of_the_images_whatever_the_network_sees(device, scale):
    flow = estimator(device, network_scale=scale)(*moved_pair(192, 256, 6, -4))
    assert flow.shape == (192, 256, 2)
    u, v = np.median(flow[20:-20, 20:-20].reshape(-1, 2), axis=0)
    assert abs(u - 6) < 0.3
    assert abs(v + 4) < 0.3


@pytest.mark.gpu
def test_a_gpu_finds_the_same_for_pairs_and_along_a_video():
    frames = video(48, 50, 90)  # more than are computed one by one
    model = estimator("cuda", network_scale=1.5)
    expected = list(estimator(network_scale=1.5).flows(frames))
    np.testing.assert_allclose(list(model.flows(frames)), expected, rtol=0, atol=1e-3)
    for _ in range(40):  # from the 33rd on it is recorded
        flow = model(frames[0], frames[1])
    np.testing.assert_allclose(flow, expected[0], rtol=0, atol=1e-3)


@pytest.mark.parametrize("scale", [0.0, 0.49, 4.01, float("nan")])
def test_a_scale_out_of_bounds_is_refused(scale):
    with pytest.raises(ValueError, match=r"network_scale must be from 0\.5 to 4"):
        FlowEstimator(device="cpu", network_scale=scale)
    with pytest.raises(BadParameter, match=r"must be from 0\.5 to 4"):
        network_scale(scale)


def test_the_bounds_themselves_are_allowed():
    assert [network_scale(scale) for scale in NETWORK_SCALES] == [0.5, 4.0]


def test_the_commands_take_a_scale_and_tell_it(here):
    for name, image in zip(("1.png", "2.png"), moved_pair(64, 64, 2, 0), strict=True):
        write_image(here / name, image)
    summaries = {}
    for scale in ("1", "2"):
        pair = ("1.png", "2.png", "-o", f"{scale}.flo", "--network-scale", scale, "--json")
        summaries[scale] = json.loads(invoke("estimate", *pair).stdout)
    assert [summary["network_scale"] for summary in summaries.values()] == [1.0, 2.0]
    assert (here / "1.flo").read_bytes() != (here / "2.flo").read_bytes()
    refused = invoke("estimate", "1.png", "2.png", "-o", "3.flo", "--network-scale", "5")
    assert refused.exit_code == 2
    assert "must be from 0.5 to 4: 5" in " ".join(refused.stderr.split())
