"""PWC-Net written out a second time, from its published numbers, with nothing of ours but weights.

In double, so that what differs is a difference of the arithmetic and not of its rounding.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pwcflow import FlowEstimator
from pwcflow.network import PwcNet
from pwcflow.weights import load_weights

from .features import relative_error
from .moving_textures import moved_pair


@pytest.fixture(scope="module")
def weights():
    return {key: value.double() for key, value in load_weights("default").state.items()}


def convolve(weights, name, x, stride=1, dilation=1):
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return F.conv2d(x, weight, bias, stride, padding=dilation, dilation=dilation)


def upsample(weights, name, x):
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return F.conv_transpose2d(x, weight, bias, stride=2, padding=1)


def leaky(x):
    return torch.where(x > 0, x, 0.1 * x)


def pyramid_of(weights, image):
    features, x = {}, image
    for level in (1, 2, 3, 4, 5, 6):
        for layer, stride in ((0, 2), (2, 1), (4, 1)):
            x = leaky(convolve(weights, f"pyramid.levels.{level}.{layer}", x, stride))
        features[level] = x
    return features


def cost_volume_of(first, second):
    n, c, h, w = first.shape
    neighbours = F.unfold(second, 9, padding=4).view(n, c, 81, h, w)
    return (first.unsqueeze(2) * neighbours).sum(1) / c


def warp(feature, flow):
    n, _, h, w = feature.shape
    x = torch.arange(w) + flow[:, 0]
    y = torch.arange(h).view(h, 1) + flow[:, 1]
    grid = torch.stack((2 * x / (w - 1) - 1, 2 * y / (h - 1) - 1), dim=-1)
    both = torch.cat((feature, feature.new_ones(n, 1, h, w)), dim=1)
    sampled = F.grid_sample(both, grid, "bilinear", "zeros", align_corners=True)
    return sampled[:, :-1] * (sampled[:, -1:] > 0.999)


def dense_block(weights, name, x):
    for layer in range(5):
        x = torch.cat((leaky(convolve(weights, f"{name}.dense.{layer}.0", x)), x), dim=1)
    return x, convolve(weights, f"{name}.flow_head", x)


def finest_flow(weights, first_image, second_image):
    """Return the flow at level 2, in units of 20 px, of BGR images in 0..1."""
    first, second = pyramid_of(weights, first_image), pyramid_of(weights, second_image)
    x, flow = dense_block(weights, "decoders.6", leaky(cost_volume_of(first[6], second[6])))
    for level, pixels in {5: 0.625, 4: 1.25, 3: 2.5, 2: 5.0}.items():
        name = f"decoders.{level}"
        flow = upsample(weights, f"{name}.upsample_flow", flow)
        feature = upsample(weights, f"{name}.upsample_feature", x)
        cost = leaky(cost_volume_of(first[level], warp(second[level], flow * pixels)))
        x = torch.cat((cost, first[level], flow, feature), dim=1)
        x, flow = dense_block(weights, name, x)
    for layer, dilation in zip((0, 2, 4, 6, 8, 10), (1, 2, 4, 8, 16, 1), strict=True):
        x = leaky(convolve(weights, f"context.{layer}", x, dilation=dilation))
    return flow + convolve(weights, "context.12", x)


def bgr(image):
    """Return an RGB image (H, W, 3) uint8 as (1, 3, H, W) blue, green, red in 0..1."""
    return torch.from_numpy(image[..., ::-1] / 255.0).permute(2, 0, 1)[None]


def flow_in_pixels(weights, first, second):
    """Return (H, W, 2) for RGB images of any size."""
    height, width = first.shape[:2]
    seen_height, seen_width = (64 * ((n + 63) // 64) for n in (height, width))
    images = (
        F.interpolate(bgr(i), (seen_height, seen_width), mode="bilinear", align_corners=False)
        for i in (first, second)
    )
    flow = finest_flow(weights, *images) * 20
    flow = F.interpolate(flow, (height, width), mode="bilinear", align_corners=False)
    u, v = flow[0, 0] * width / seen_width, flow[0, 1] * height / seen_height
    return torch.stack((u, v), dim=-1).numpy()


def test_the_network_computes_the_published_numbers(weights):
    first, second = map(bgr, moved_pair(128, 192, 7, -3))
    network = PwcNet().double()
    network.load_state_dict(weights)
    with torch.inference_mode():
        expected = finest_flow(weights, first, second)
        assert relative_error(network(first, second)[-1], expected) <= 1e-9


@pytest.mark.parametrize(("height", "width"), [(128, 192), (100, 130)])
def test_the_estimator_resizes_and_scales_as_published(height, width, weights):
    pair = moved_pair(height, width, 7, -3)
    with torch.inference_mode():
        expected = flow_in_pixels(weights, *pair)
    flow = FlowEstimator(device="cpu")(*pair)
    assert np.abs(flow - expected).max() <= 1e-4
    assert np.abs(expected).mean() > 1  # there is something to get wrong
