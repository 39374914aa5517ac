"""One convolution finds a level's flow and the next one's feature."""

import torch
import torch.nn.functional as F
from torch import nn

from pwcflow.aligned import fill_up
from pwcflow.decoder_head import decoder_head, subpixel_weight


def test_sub_pixels_are_those_of_a_transposed_convolution():
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(shape, generator=generator) for shape in [(2, 5, 3, 4), (5, 3, 4, 4)])
    expected = F.conv_transpose2d(x.double(), weight.double(), stride=2, padding=1)
    found = F.conv2d(x.double(), subpixel_weight(weight).double(), padding=1)
    torch.testing.assert_close(F.pixel_shuffle(found, 2), expected, rtol=1e-12, atol=1e-12)


def test_flow_and_feature_are_those_of_two_layers_and_so_are_their_gradients():
    torch.manual_seed(0)
    flow, feature = nn.Conv2d(5, 2, 3, padding=1), nn.ConvTranspose2d(5, 2, 4, 2, 1)
    parameters = [*flow.double().parameters(), *feature.double().parameters()]
    x = torch.randn(2, 5, 3, 4, dtype=torch.float64)
    target = torch.randn(2, 2, 3, 4).double(), torch.randn(2, 2, 6, 8).double()
    found = F.conv2d(x, *fill_up(*decoder_head(flow, feature)), padding=1)
    assert found.shape == (2, 16, 3, 4)
    assert not found[:, 10:].any()
    ours = found[:, :2], F.pixel_shuffle(found[:, 2:10], 2)
    theirs = flow(x), feature(x)
    gradients = []
    for results in (ours, theirs):
        loss = sum((result * goal).sum() for result, goal in zip(results, target, strict=True))
        gradients.append(torch.autograd.grad(loss, parameters))
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_without_a_finer_level_there_is_flow_and_zeros():
    flow = nn.Conv2d(5, 2, 3, padding=1)
    weight, bias = fill_up(*decoder_head(flow, None))
    assert torch.equal(weight[:2], flow.weight)
    assert torch.equal(bias[:2], flow.bias)
    assert (weight.shape, bias.shape) == ((8, 5, 3, 3), (8,))
    assert not weight[2:].any()
    assert not bias[2:].any()
    assert weight.is_contiguous(memory_format=torch.channels_last)
